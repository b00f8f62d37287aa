// Pieces of words and their ids: vocab.txt, a piece a line, its id the line's number from 0. "##" marks a piece that goes on with a word.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace thinwire::text {

/// What every vocabulary must have, in the order in which one that is learnt begins.
inline constexpr std::string_view special_pieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
inline constexpr std::string_view continuation = "##";

class Vocabulary {
 public:
  using Id = std::int32_t;

  /// Reads vocab.txt. EnvironmentError when the file cannot be read; CorruptData "FILE:LINE:COLUMN: ..." for a line that is empty, no UTF-8, or there
  /// twice, and for a file without one of the special pieces.
  static Vocabulary read(const std::string& path);
  /// The same of pieces by their ids; `source` stands in errors for the file.
  Vocabulary(std::vector<std::string> pieces, const std::string& source);

  Id size() const { return static_cast<Id>(pieces_.size()); }
  const std::string& piece(Id id) const { return pieces_.at(static_cast<std::size_t>(id)); }
  /// Of the text that begins a word.
  std::optional<Id> first(std::string_view text) const { return find(first_, text); }
  /// Of the text that goes on with a word; without its "##".
  std::optional<Id> next(std::string_view text) const { return find(next_, text); }
  /// Bytes of the longest piece, without "##".
  std::size_t longest() const { return longest_; }

  Id pad() const { return special_[0]; }
  Id unknown() const { return special_[1]; }
  Id begin() const { return special_[2]; }      ///< [CLS]
  Id separator() const { return special_[3]; }  ///< [SEP]
  Id mask() const { return special_[4]; }
  /// SHA-256 of vocab.txt as `write` has it.
  std::string hash() const;
  /// Complete or not at all.
  void write(const std::string& path) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Map = std::unordered_map<std::string, Id, Hash, std::equal_to<>>;
  static std::optional<Id> find(const Map& map, std::string_view text);
  std::string content() const;

  std::vector<std::string> pieces_;
  Map first_, next_;
  std::size_t longest_ = 0;
  Id special_[std::size(special_pieces)] = {};
};

}  // namespace thinwire::text
