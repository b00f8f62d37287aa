#include "models/data/text/vocabulary.h"

#include <algorithm>

#include "core/error.h"
#include "core/sha256.h"
#include "models/data/text/unicode.h"
#include "results/files/files.h"

namespace thinwire::text {
namespace {

[[noreturn]] void refuse(const std::string& source, std::size_t line, std::size_t column, const std::string& what) {
  throw CorruptData(source + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + what);
}

/// Bytes of `text` before the first that is no UTF-8.
std::size_t sound_bytes(const std::string& text) {
  const std::string kept = unicode::to_utf8(unicode::from_utf8(text));
  return static_cast<std::size_t>(std::mismatch(text.begin(), text.end(), kept.begin(), kept.end()).first - text.begin());
}

}  // namespace

Vocabulary Vocabulary::read(const std::string& path) {
  const std::string content = results::read_file(path);
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    std::string piece = content.substr(at, end - at);
    if (!piece.empty() && piece.back() == '\r') piece.pop_back();  // written on another system
    pieces.push_back(std::move(piece));
    at = end + 1;
  }
  return Vocabulary(std::move(pieces), path);
}

Vocabulary::Vocabulary(std::vector<std::string> pieces, const std::string& source) : pieces_(std::move(pieces)) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& piece = pieces_[i];
    if (piece.empty()) refuse(source, i + 1, 1, "an empty line; each line of a vocabulary is a piece");
    if (const std::size_t sound = sound_bytes(piece); sound != piece.size()) refuse(source, i + 1, sound + 1, "this byte is no UTF-8");
    const auto [other, added] = first_.emplace(piece, static_cast<Id>(i));
    if (!added) refuse(source, i + 1, 1, "the piece '" + piece + "' has line " + std::to_string(other->second + 1) + " already; a piece has one id");
    const bool goes_on = piece.starts_with(continuation);
    if (goes_on) next_.emplace(piece.substr(continuation.size()), static_cast<Id>(i));
    longest_ = std::max(longest_, piece.size() - (goes_on ? continuation.size() : 0));
  }
  for (std::size_t i = 0; i < std::size(special_pieces); ++i) {
    const auto found = first(special_pieces[i]);
    if (!found)
      refuse(source, pieces_.size() + 1, 1,
             "the vocabulary ends without the piece " + std::string(special_pieces[i]) + ", which BERT cannot do without; add it as a line");
    special_[i] = *found;
  }
}

std::optional<Vocabulary::Id> Vocabulary::find(const Map& map, std::string_view text) {
  const auto found = map.find(text);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

std::string Vocabulary::content() const {
  std::string all;
  for (const std::string& piece : pieces_) (all += piece) += '\n';
  return all;
}

std::string Vocabulary::hash() const { return sha256_hex(content()); }

void Vocabulary::write(const std::string& path) const { results::write_file_atomically(path, content()); }

}  // namespace thinwire::text
