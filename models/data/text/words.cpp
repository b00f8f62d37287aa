#include "models/data/text/words.h"

#include <algorithm>
#include <utility>

#include "models/data/text/unicode.h"

namespace thinwire::text {
namespace {

bool is_chinese(char32_t c) {
  // CJK Unified Ideographs, extensions A to E, compatibility ideographs and their supplement. Not Hangul, Hiragana, Katakana: those have spaces or are
  // treated like letters.
  constexpr std::pair<char32_t, char32_t> blocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                                      {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return c >= blocks[1].first && std::any_of(std::begin(blocks), std::end(blocks), [c](const auto& b) { return c >= b.first && c <= b.second; });
}

bool is_break(char32_t c) { return c == '\t' || c == '\n' || c == '\r' || unicode::is_space(c) || unicode::is_separator(c); }

bool is_dropped(char32_t c) { return c == 0 || c == 0xFFFD || unicode::is_control(c); }

bool is_punctuation(char32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return ascii || unicode::is_punctuation(c);
}

std::u32string without_case(const std::u32string& word) {
  std::u32string letters = unicode::decomposed(unicode::lower(word));
  std::erase_if(letters, unicode::is_mark);
  return letters;
}

/// Appends a word between white space, split at its punctuation.
void append_words(std::vector<std::string>& found, std::u32string word, Case letters) {
  if (letters == Case::dropped) word = without_case(word);
  bool begins = true;
  for (const char32_t c : word) {
    const bool alone = is_punctuation(c);
    if (begins || alone) found.emplace_back();
    unicode::append_utf8(found.back(), c);
    begins = alone;
  }
}

}  // namespace

std::vector<std::string> words(std::string_view text, Case letters) {
  std::vector<std::string> found;
  std::u32string word;
  const auto end_word = [&] {
    if (!word.empty()) append_words(found, std::exchange(word, {}), letters);
  };
  for (const char32_t c : unicode::from_utf8(text)) {
    if (is_break(c)) {
      end_word();
    } else if (is_chinese(c)) {
      end_word();
      word = c;
      end_word();
    } else if (!is_dropped(c)) {
      word += c;
    }
  }
  end_word();
  return found;
}

}  // namespace thinwire::text
