#include "models/data/text/encode_text.h"

#include <string>
#include <unordered_map>

namespace thinwire::text {

std::vector<Vocabulary::Id> encode_text(std::string_view text, const WordPiece& pieces) {
  std::vector<Vocabulary::Id> ids;
  std::unordered_map<std::string, std::vector<Vocabulary::Id>> known;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    for (std::string& word : words(text.substr(0, end), pieces.letters())) {
      const auto [at, is_new] = known.try_emplace(std::move(word));
      if (is_new) pieces.encode_word(at->first, at->second);
      ids.insert(ids.end(), at->second.begin(), at->second.end());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ids;
}

}  // namespace thinwire::text
