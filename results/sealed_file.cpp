#include "results/sealed_file.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "core/sha256.h"
#include "results/files/files.h"
#include "results/record.h"

namespace thinwire::results {
namespace {

constexpr std::size_t seal_bytes = 512, piece_bytes = 1 << 20;

std::string word_after(const std::string& seal, const std::string& key) {
  const std::size_t at = seal.find(" " + key + "=");
  if (at == std::string::npos) return "";
  const std::size_t from = at + key.size() + 2;
  return seal.substr(from, seal.find_first_of(" \n", from) - from);
}

/// Length and SHA-256 of what follows the seal.
std::pair<std::uint64_t, std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(seal_bytes);
  if (!file) throw EnvironmentError(path + ": cannot be read; check that you have the right to read it");
  Sha256 hash;
  std::uint64_t bytes = 0;
  const auto piece = std::make_unique<std::array<char, piece_bytes>>();
  while (file.read(piece->data(), piece_bytes), file.gcount() > 0) {
    hash.update(std::string_view(piece->data(), static_cast<std::size_t>(file.gcount())));
    bytes += static_cast<std::uint64_t>(file.gcount());
  }
  if (file.bad()) throw CorruptData(path + ": the disk failed after " + std::to_string(bytes + seal_bytes) + " bytes");
  return {bytes, hash.hex()};
}

void put_seal(const std::string& path, const std::string& kind, int version) {
  const auto [bytes, hash] = content_of(path);
  std::string seal = kind + " version=" + std::to_string(version) + " bytes=" + std::to_string(bytes) + " sha256=" + hash + "\n";
  seal.resize(seal_bytes, '\0');
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.write(seal.data(), static_cast<std::streamsize>(seal.size()));
  file.close();
  if (!file) throw RuntimeFailure(path + ": cannot write its seal; is the disk full?");
}

}  // namespace

void write_sealed_h5(const std::string& path, const std::string& kind, int version, const std::function<void(h5::File&)>& fill) {
  make_folder(std::filesystem::absolute(path).parent_path().string());
  const std::string temporary = path + ".tmp";
  try {
    {
      h5::File file = h5::File::create(temporary, seal_bytes);
      stamp(file);
      fill(file);
      file.close();
    }
    put_seal(temporary, kind, version);
    publish_file(path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

void check_seal(const std::string& path, const std::string& kind, int version, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw EnvironmentError(path + ": cannot be read; check that it exists and that you have the right to read it");
  std::string seal(seal_bytes, '\0');
  file.read(seal.data(), seal_bytes);
  const bool whole = file.gcount() == static_cast<std::streamsize>(seal_bytes);
  seal.resize(static_cast<std::size_t>(file.gcount()));
  seal = seal.substr(0, seal.find('\n'));
  const std::string found = seal.substr(0, seal.find(' '));
  if (!whole && std::string_view(kind).starts_with(found))
    throw CorruptData(path + ": it ends after " + std::to_string(file.gcount()) + " bytes, inside its head; " + remedy);
  if (found != kind) throw UsageError(path + ": this file is no " + kind + " (its head has no such seal); name another file");
  std::uint64_t bytes = 0;
  const std::string length = word_after(seal, "bytes"), version_text = word_after(seal, "version");
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  // Damage is said before another version is: the remedy differs.
  const auto [there, hash] = content_of(path);
  if (bytes != there)
    throw CorruptData(path + ": it ends after " + std::to_string(there + seal_bytes) + " bytes where its seal says " +
                      std::to_string(bytes + seal_bytes) + "; " + remedy);
  if (hash != word_after(seal, "sha256"))
    throw CorruptData(path + ": its content does not match the check sum in its first line (SHA-256 over " + std::to_string(there) +
                      " bytes from byte " + std::to_string(seal_bytes) + "); " + remedy);
  if (version_text != std::to_string(version))
    throw UsageError(path + ": " + kind + " version " + version_text + " where this program reads version " + std::to_string(version) +
                     "; use the thinwire that wrote it, or " + remedy);
}

}  // namespace thinwire::results
