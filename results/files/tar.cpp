#include "results/files/tar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/sha256.h"

namespace thinwire::results {
namespace {

constexpr std::size_t block = 512, piece = 1 << 16;
constexpr std::uint64_t most_bytes = 077777777777;  // 11 octal digits

struct Header {
  char name[100], mode[8], owner[8], group[8], size[12], time[12], sum[8], kind, link[100], magic[6],
      version[2], owner_name[32], group_name[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(Header) == block);

/// Sum over the header's bytes with the sum itself read as spaces.
unsigned sum_of(const Header& header) {
  Header blank = header;
  std::memset(blank.sum, ' ', sizeof blank.sum);
  unsigned sum = 0;
  for (std::size_t i = 0; i < block; ++i) sum += reinterpret_cast<const unsigned char*>(&blank)[i];
  return sum;
}

/// Where to cut a name into prefix and name; npos: no such place.
std::size_t cut_of(const std::string& name) {
  if (name.size() <= sizeof(Header::name)) return 0;
  for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
    if (at <= sizeof(Header::prefix) && name.size() - at - 1 <= sizeof(Header::name)) return at;
  return std::string::npos;
}

template <std::size_t n>
std::string field(const char (&text)[n]) {
  return {text, strnlen(text, n)};
}

template <std::size_t n>
std::uint64_t octal(const char (&text)[n], const std::string& where) {
  std::uint64_t value = 0;
  const char* from = std::find_if(text, text + n, [](char c) { return c != ' '; });
  const auto [end, error] = std::from_chars(from, text + n, value, 8);
  if (error != std::errc() || (end != text + n && *end != '\0' && *end != ' '))
    complain_of_damage(where, "a number in a member's header is none");
  return value;
}

void read_exactly(const ByteSource& source, char* bytes, std::size_t size, const std::string& where) {
  for (std::size_t done = 0; done < size;) {
    const std::size_t n = source(bytes + done, size - done);
    if (n == 0) complain_of_damage(where, "the archive ends early (it was cut)");
    done += n;
  }
}

bool is_zero(const char* bytes, std::size_t size) {
  return std::all_of(bytes, bytes + size, [](char c) { return c == '\0'; });
}

struct InputFile {
  explicit InputFile(const std::string& path) : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd < 0) throw EnvironmentError(path + ": cannot be read (" + std::strerror(errno) + ")");
  }
  ~InputFile() { close(fd); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int fd;
};

}  // namespace

void complain_of_damage(const std::string& where, const std::string& what) {
  throw CorruptData(where + ": damaged: " + what + "; fetch it anew");
}

bool is_safe_member_name(const std::string& name) {
  if (name.empty() || name.size() > 255 || cut_of(name) == std::string::npos) return false;
  if (std::any_of(name.begin(), name.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; }))
    return false;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t end = std::min(name.find('/', from), name.size());
    const std::string part = name.substr(from, end - from);
    if (part.empty() || part == "." || part == "..") return false;
    from = end + 1;
  }
  return true;
}

void TarWriter::header(const std::string& name, std::uint64_t bytes) {
  if (!is_safe_member_name(name))
    throw UsageError("`" + name + "` cannot be the name of a file in an archive (docs/archiving.md); rename it");
  if (bytes > most_bytes) throw UsageError(name + ": above 8 GiB; such files cannot be archived");
  if (!names_.insert(name).second) throw UsageError(name + ": twice in one archive");
  Header h{};
  const std::size_t cut = cut_of(name);
  std::memcpy(h.prefix, name.data(), cut);
  const std::string rest = cut == 0 ? name : name.substr(cut + 1);
  std::memcpy(h.name, rest.data(), rest.size());
  std::snprintf(h.mode, sizeof h.mode, "%07o", 0644);
  std::snprintf(h.owner, sizeof h.owner, "%07o", 0);
  std::snprintf(h.group, sizeof h.group, "%07o", 0);
  std::snprintf(h.size, sizeof h.size, "%011llo", static_cast<unsigned long long>(bytes));
  std::snprintf(h.time, sizeof h.time, "%011o", 0);
  h.kind = '0';
  std::memcpy(h.magic, "ustar", 6);
  std::memcpy(h.version, "00", 2);
  std::snprintf(h.sum, sizeof h.sum, "%06o", sum_of(h));
  h.sum[7] = ' ';
  sink_({reinterpret_cast<const char*>(&h), block});
}

void TarWriter::pad(std::uint64_t bytes) {
  static constexpr std::array<char, block> zeros{};
  if (bytes % block != 0) sink_({zeros.data(), block - bytes % block});
}

std::string TarWriter::add_file(const std::string& name, const std::string& path) {
  const InputFile file(path);
  struct stat info {};
  if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) throw EnvironmentError(path + ": no plain file");
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  header(name, bytes);
  Sha256 hash;
  std::vector<char> buffer(piece);
  for (std::uint64_t left = bytes; left > 0;) {
    const ssize_t n =
        read(file.fd, buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, piece)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw RuntimeFailure(path +
                           ": became shorter while it was archived; wait until nothing runs in this folder");
    const std::string_view got(buffer.data(), static_cast<std::size_t>(n));
    hash.update(got);
    sink_(got);
    left -= static_cast<std::uint64_t>(n);
  }
  pad(bytes);
  return hash.hex();
}

void TarWriter::add_text(const std::string& name, std::string_view text) {
  header(name, text.size());
  sink_(text);
  pad(text.size());
}

void TarWriter::finish() {
  static constexpr std::array<char, 2 * block> zeros{};
  sink_({zeros.data(), zeros.size()});
}

void read_tar(const ByteSource& source, const std::string& where,
              const std::function<ByteSink(const TarMember&)>& open) {
  static const std::array<char, block> zeros{};
  std::set<std::string> names;
  std::vector<char> buffer(piece);
  for (;;) {
    Header h;
    read_exactly(source, reinterpret_cast<char*>(&h), block, where);
    if (std::memcmp(&h, zeros.data(), block) == 0) break;
    if (std::memcmp(h.magic, "ustar", 5) != 0 || octal(h.sum, where) != sum_of(h))
      complain_of_damage(where, "the sum of a member's header is wrong, or this is no tar archive");
    const std::string prefix = field(h.prefix), name = (prefix.empty() ? "" : prefix + "/") + field(h.name);
    std::string shown;  // what a hostile name may do to a terminal is nobody's business
    for (const char c : name) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    if (h.kind != '0' && h.kind != '\0')
      complain_of_damage(where, "member `" + shown + "` is no plain file (links, folders and devices are refused)");
    if (!is_safe_member_name(name))
      complain_of_damage(where, "member `" + shown + "` would lie outside the folder or has an unsafe name");
    if (!names.insert(name).second) complain_of_damage(where, "member `" + shown + "` is there twice");
    const TarMember member{name, octal(h.size, where)};
    const ByteSink sink = open(member);
    for (std::uint64_t left = member.bytes; left > 0;) {
      const std::size_t n =
          source(buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, piece)));
      if (n == 0) complain_of_damage(where, "the archive ends inside `" + shown + "` (it was cut)");
      if (sink) sink({buffer.data(), n});
      left -= n;
    }
    if (const std::size_t used = member.bytes % block; used != 0) {
      read_exactly(source, buffer.data(), block - used, where);
      if (!is_zero(buffer.data(), block - used)) complain_of_damage(where, "the padding behind `" + shown + "` is not zero");
    }
  }
  // To the end, so that the compressor's check sum is looked at. Behind the end there may be zeros only (tar fills blocks).
  while (const std::size_t n = source(buffer.data(), piece))
    if (!is_zero(buffer.data(), n)) complain_of_damage(where, "bytes follow the end of the archive");
}

}  // namespace thinwire::results
