#include "models/data/text/wordpiece.h"

#include <algorithm>

namespace thinwire::text {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char byte) { return !continues_character(byte); }));
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, Case letters, std::size_t longest_word)
    : vocabulary_(std::move(vocabulary)), letters_(letters), longest_word_(longest_word) {}

std::vector<Vocabulary::Id> WordPiece::encode(std::string_view text) const {
  std::vector<Vocabulary::Id> ids;
  for (const std::string& word : words(text, letters_)) encode_word(word, ids);
  return ids;
}

void WordPiece::encode_word(std::string_view word, std::vector<Vocabulary::Id>& ids) const {
  const std::size_t before = ids.size();
  std::string_view rest = word;
  bool known = characters(word) <= longest_word_;
  while (known && !rest.empty()) {
    known = false;
    for (std::size_t length = std::min(rest.size(), vocabulary_.longest()); length > 0 && !known; --length) {
      if (length < rest.size() && continues_character(rest[length])) continue;  // would cut a character
      const std::string_view piece = rest.substr(0, length);
      const auto id = ids.size() == before ? vocabulary_.first(piece) : vocabulary_.next(piece);
      if (!id) continue;
      ids.push_back(*id);
      rest.remove_prefix(length);
      known = true;
    }
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(vocabulary_.unknown());
}

}  // namespace thinwire::text
