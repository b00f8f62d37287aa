// Tar archives (POSIX ustar) of plain files: written byte for byte the same from the same files, read with
// distrust.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace thinwire::results {

/// Takes the next bytes of a stream.
using ByteSink = std::function<void(std::string_view)>;
/// Gives up to `size` bytes; 0 only at the end.
using ByteSource = std::function<std::size_t(char* bytes, std::size_t size)>;

/// The one form of complaint about an archive that is not as it was written: CorruptData "WHERE: damaged: WHAT; fetch it anew".
[[noreturn]] void complain_of_damage(const std::string& where, const std::string& what);

/// Whether a name may be a member: relative, at most 255 bytes (100 behind the last cut at a slash), no
/// empty, "." or ".." part, no control characters and no backslash.
bool is_safe_member_name(const std::string& name);

/// Members are plain files with mode 644, owner 0 and a fixed time (the epoch): equal contents in equal order
/// are equal archives.
class TarWriter {
 public:
  explicit TarWriter(ByteSink sink) : sink_(std::move(sink)) {}
  /// Returns the SHA-256 of what was written. Throws UsageError for a name that is not safe or was there, or
  /// a file above 8 GiB; EnvironmentError when it cannot be read; RuntimeFailure when it shrinks meanwhile
  /// (of one that grows, what was there at first is taken).
  std::string add_file(const std::string& name, const std::string& path);
  void add_text(const std::string& name, std::string_view text);
  /// Ends the archive.
  void finish();

 private:
  void header(const std::string& name, std::uint64_t bytes);
  void pad(std::uint64_t bytes);
  ByteSink sink_;
  std::set<std::string> names_;
};

struct TarMember {
  std::string name;
  std::uint64_t bytes = 0;
};

/// Calls `open` for every member and hands its content to the sink that it returns (an empty one: passed
/// over). Throws CorruptData, naming `where` and the member, for anything but plain files with safe names,
/// each once: links, devices, folders, absolute names, "..", a header whose sum is off, an end that is
/// missing, or bytes other than zero in the padding and behind the end (complain_of_damage).
void read_tar(const ByteSource& source, const std::string& where,
              const std::function<ByteSink(const TarMember&)>& open);

}  // namespace thinwire::results
