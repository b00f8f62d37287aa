// Real text as byte tokens. Default: the Python standard library's sources, which lie on any machine that
// this suite runs on; their hash is in every record, because another Python has another text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace thinwire {

inline constexpr std::int64_t byte_vocabulary = 256;

class Corpus {
 public:
  /// Every *.py file below the newest /usr/lib/python3.N (then /usr/local/lib/python3.N) that holds os.py, in
  /// bytewise order of its relative path, without folders named site-packages, dist-packages, test, tests,
  /// idle_test or __pycache__. EnvironmentError when there is none.
  static Corpus python_standard_library();
  /// One file, or every regular file below a folder (no hidden ones) in bytewise order of its relative path.
  /// EnvironmentError when the path cannot be read, UsageError when it holds no text.
  static Corpus from_path(const std::string& path);
  /// For tests.
  static Corpus from_text(std::string text, std::string source);
  /// from_path, or the standard library when `path` is empty.
  static Corpus open(const std::string& path) {
    return path.empty() ? python_standard_library() : from_path(path);
  }

  const std::string& source() const { return source_; }
  std::int64_t files() const { return files_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(training_.size() + validation_.size()); }
  /// SHA-256 of the whole text, in reading order, as hexadecimal digits.
  const std::string& hash() const { return hash_; }
  /// Every tenth block of 16 KiB is for validation (of a shorter text, the last tenth); the rest, joined, is
  /// for training.
  std::span<const std::uint8_t> training() const { return training_; }
  std::span<const std::uint8_t> validation() const { return validation_; }
  /// Entropies of the training text in nats per byte: of single bytes, and of a byte given the one before it.
  double unigram_entropy() const { return unigram_; }
  double bigram_entropy() const { return bigram_; }

 private:
  Corpus(std::string text, std::string source, std::int64_t files);
  std::string source_, hash_;
  std::int64_t files_ = 0;
  std::vector<std::uint8_t> training_, validation_;
  double unigram_ = 0, bigram_ = 0;
};

/// H(X) and H(next | current) of a text in nats, from its own counts.
double unigram_entropy_nats(std::span<const std::uint8_t> text);
double bigram_entropy_nats(std::span<const std::uint8_t> text);

}  // namespace thinwire
