#include "models/data/corpus.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/joined.h"
#include "core/sha256.h"
#include "core/statistics.h"

namespace thinwire {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t split_block = 16 * 1024;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // Inserting an empty stream sets failbit on `text`, not on `file`: an empty file is no error here.
  if (!file || file.bad())
    throw EnvironmentError("Text file '" + path.string() +
                           "' cannot be read. Check that it exists and that you may read it.");
  return std::move(text).str();
}

/// Regular files below `root` that `wanted` accepts, in bytewise order of the relative path.
template <typename Wanted>
std::vector<fs::path> files_below(const fs::path& root, const Wanted& wanted) {
  std::vector<std::string> relative;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory() && !wanted(it->path(), true))
      it.disable_recursion_pending();
    else if (it->is_regular_file() && wanted(it->path(), false))
      relative.push_back(it->path().lexically_relative(root).string());
  }
  if (error)
    throw EnvironmentError("Folder '" + root.string() + "' cannot be read: " + error.message() +
                           ". Check its rights.");
  std::sort(relative.begin(), relative.end());
  std::vector<fs::path> paths;
  for (const std::string& r : relative) paths.push_back(root / r);
  return paths;
}

/// Folder of the newest Python 3 standard library, or empty.
fs::path standard_library_folder() {
  for (const char* prefix : {"/usr/lib", "/usr/local/lib"}) {
    int newest = -1;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(prefix, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool numbered =
          name.rfind("python3.", 0) == 0 && name.size() > 8 && name.size() < 12 &&
          std::all_of(name.begin() + 8, name.end(), [](unsigned char c) { return std::isdigit(c); });
      if (numbered && fs::exists(entry.path() / "os.py", ignored))
        newest = std::max(newest, std::stoi(name.substr(8)));
    }
    if (newest >= 0) return fs::path(prefix) / ("python3." + std::to_string(newest));
  }
  return {};
}

}  // namespace

double unigram_entropy_nats(std::span<const std::uint8_t> text) {
  std::vector<double> counts(byte_vocabulary);
  for (std::uint8_t c : text) ++counts[c];
  return entropy_nats(counts);
}

double bigram_entropy_nats(std::span<const std::uint8_t> text) {
  // H(next | current) = H(current, next) - H(current)
  std::vector<double> pairs(byte_vocabulary * byte_vocabulary), first(byte_vocabulary);
  for (std::size_t i = 1; i < text.size(); ++i) {
    ++pairs[std::size_t{text[i - 1]} * byte_vocabulary + text[i]];
    ++first[text[i - 1]];
  }
  return entropy_nats(pairs) - entropy_nats(first);
}

Corpus::Corpus(std::string text, std::string source, std::int64_t files)
    : source_(std::move(source)), files_(files) {
  if (text.empty())
    throw UsageError("Text '" + source_ +
                     "' is empty. Name a file or folder with text by --text, or leave --text out for the "
                     "Python standard library.");
  hash_ = sha256_hex(text);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  if (text.size() < 10 * split_block) {
    const std::size_t cut = text.size() - text.size() / 10;
    training_.assign(bytes, bytes + cut);
    validation_.assign(bytes + cut, bytes + text.size());
  } else {
    for (std::size_t at = 0; at < text.size(); at += split_block) {
      auto& part = at / split_block % 10 == 9 ? validation_ : training_;
      part.insert(part.end(), bytes + at, bytes + std::min(at + split_block, text.size()));
    }
  }
  unigram_ = unigram_entropy_nats(training_);
  bigram_ = bigram_entropy_nats(training_);
}

Corpus Corpus::from_text(std::string text, std::string source) {
  return Corpus(std::move(text), std::move(source), 1);
}

Corpus Corpus::from_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw EnvironmentError("Text '" + path + "' does not exist. Name an existing file or folder by --text.");
  if (!fs::is_directory(status)) return Corpus(read_text(path), path, 1);
  const auto paths =
      files_below(path, [](const fs::path& p, bool) { return p.filename().string().front() != '.'; });
  return Corpus(joined(paths, "", read_text), path, static_cast<std::int64_t>(paths.size()));
}

Corpus Corpus::python_standard_library() {
  const fs::path root = standard_library_folder();
  if (root.empty())
    throw EnvironmentError(
        "No Python 3 standard library was found in /usr/lib or /usr/local/lib. Install python3, or name a "
        "text by --text FILE|FOLDER.");
  const auto paths = files_below(root, [](const fs::path& p, bool folder) {
    const std::string name = p.filename().string();
    if (!folder) return p.extension() == ".py";
    for (const char* skipped :
         {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})
      if (name == skipped) return false;
    return true;
  });
  return Corpus(joined(paths, "", read_text), "Python standard library (" + root.filename().string() + ")",
                static_cast<std::int64_t>(paths.size()));
}

}  // namespace thinwire
