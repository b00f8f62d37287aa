// The words of a text as BERT's BasicTokenizer finds them (Devlin et al. 2019, released code; recollected). Ids match the reference only if every
// step does, so none is "improved":
//   1. U+0000, U+FFFD and control characters (Cc, Cf; not tab, line feed, carriage return) are dropped; spaces of any kind (Zs) become ' '
//   2. each character of the blocks of Chinese characters becomes a word
//   3. split at white space; Zl and Zp part words too, as Python's str.split() goes by them
//   4. without case only: small letters, then NFD without marks (Mn)
//   5. each punctuation character becomes a word: categories P*, and all of ASCII that is no letter, digit, space or control character
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::text {

enum class Case { kept, dropped };

/// In UTF-8. Bytes of `text` that are no UTF-8 are left out.
std::vector<std::string> words(std::string_view text, Case letters);

}  // namespace thinwire::text
