// A fuzz target: one reader of bytes from outside. Its file registers itself in its last line; nothing lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::fuzz {

struct Target {
  std::string name;
  std::string help;  ///< what reads the bytes
  /// As many mutated inputs as a core that others share read in five seconds when the target was written; a test run reads a quarter. A number and not a time, so that every run reads the same.
  std::uint64_t inputs;
  /// Hands the bytes to the reader. It may throw any error of the project (core/error.h) but an internal one; everything else that it throws or does is a finding.
  std::function<void(std::string_view input)> read;
  /// Inputs that the reader accepts without an error: what mutations begin with.
  std::function<std::vector<std::string>()> seeds;
  /// The first line says how the rest is read (a codec and a shape): mutations leave it alone.
  bool first_line_stays = false;
};

bool register_target(Target target);
/// By name.
const std::vector<Target>& targets();
/// UsageError that lists what there is.
const Target& target(const std::string& name);

/// How an input ended.
enum class Ending { read, refused };
/// Memory whose last byte is followed by a page that nobody may touch: reading or writing behind it kills the process, with a sanitizer or without. Grows; contents are new.
class AtTheEnd {
 public:
  AtTheEnd() = default;
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  ~AtTheEnd();
  /// So many bytes, the last of them at the end. Valid until the next call.
  std::byte* bytes(std::size_t count);

 private:
  std::byte* pages_ = nullptr;
  std::size_t room_ = 0;  ///< before the page that is guarded
};

/// Reads one input, which lies in memory as above. Throws Finding, which says what escaped the reader.
Ending read_input(const Target& target, std::string_view input);

struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Made by the first call, gone when that process ends. Processes that it forks afterwards write to the same one.
const std::string& folder_of_files();

/// Writes the input to a file of this name in that folder and returns its path: for readers that take a path.
std::string as_file(const std::string& name, std::string_view input);

/// The first line of an input, without its end, and what follows it.
std::pair<std::string_view, std::string_view> split_first_line(std::string_view input);

}  // namespace thinwire::fuzz
