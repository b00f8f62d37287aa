#include "experiments/archive/archive_seal.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "core/sha256.h"
#include "results/files/tar.h"

namespace thinwire::sweep {
namespace {

using results::complain_of_damage;

// A skippable frame: magic number 0x184D2A50 and the length of what follows, both little-endian.
constexpr std::string_view text_before_hash = "thinwire-archive sha256=";
constexpr std::size_t text_bytes = text_before_hash.size() + 64 + 1, seal_bytes = 8 + text_bytes;
static_assert(text_bytes < 256);

std::string seal_of(const std::string& hash) {
  std::string seal = "\x50\x2a\x4d\x18";
  seal += static_cast<char>(text_bytes);
  seal += std::string(3, '\0');
  return seal.append(text_before_hash) + hash + "\n";
}

std::string hash_of_first(std::ifstream& file, std::uint64_t bytes, const std::string& path) {
  Sha256 hash;
  const auto piece = std::make_unique<std::array<char, 1 << 16>>();
  while (bytes > 0) {
    const std::uint64_t wanted = std::min<std::uint64_t>(bytes, piece->size());
    file.read(piece->data(), static_cast<std::streamsize>(wanted));
    if (file.gcount() != static_cast<std::streamsize>(wanted)) complain_of_damage(path, "the disk gives no more of it");
    hash.update(std::string_view(piece->data(), wanted));
    bytes -= wanted;
  }
  return hash.hex();
}

std::ifstream opened(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path)) throw EnvironmentError(path + ": no such file, or no right to read it");
  return file;
}

}  // namespace

void seal_archive(const std::string& path) {
  std::ifstream written = opened(path);
  const std::string seal = seal_of(hash_of_first(written, std::filesystem::file_size(path), path));
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(seal.data(), static_cast<std::streamsize>(seal.size()));
  file.close();
  if (!file) throw RuntimeFailure(path + ": cannot write its seal; is the disk full?");
}

void check_archive_seal(const std::string& path) {
  std::ifstream file = opened(path);
  const std::uint64_t bytes = std::filesystem::file_size(path);
  if (bytes < seal_bytes) complain_of_damage(path, "it ends after " + std::to_string(bytes) + " bytes");
  const std::string expected = seal_of(hash_of_first(file, bytes - seal_bytes, path));
  std::string seal(seal_bytes, '\0');
  file.read(seal.data(), static_cast<std::streamsize>(seal.size()));
  if (!file) complain_of_damage(path, "the disk gives no more of it");
  if (seal == expected) return;
  const std::string beginning = expected.substr(0, seal_bytes - 65);
  if (seal.substr(0, beginning.size()) == beginning)
    complain_of_damage(path, "its content does not match the SHA-256 at its end");
  complain_of_damage(path, "it does not end in its SHA-256 (cut, added to, or not written by this version of `sweep archive`)");
}

}  // namespace thinwire::sweep
