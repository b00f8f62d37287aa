#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>

namespace thinwire::fuzz {
namespace {

/// Draws one number after the other from the part of the stream that belongs to input i.
class Draws {
 public:
  Draws(const Random& random, std::uint64_t i) : random_(random), next_(i << 16) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.below(next_++, bound)); }

 private:
  const Random& random_;
  std::uint64_t next_;
};

constexpr std::uint64_t ends_of_ranges[] = {0,          1,          2,          0x7f,       0x80,       0xff,        0x100,      0x7fff,    0x8000, 0xffff,     0x10000,    0x7fffffff,
                                            0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, ~0ull >> 1u, 1ull << 63, ~0ull - 7, ~0ull,  0x7fc00000, 0x7f800000, 0xff7fffff};
constexpr const char* words[] = {"0",
                                 "1",
                                 "-1",
                                 "255",
                                 "65536",
                                 "2147483648",
                                 "4294967296",
                                 "9223372036854775807",
                                 "-9223372036854775808",
                                 "99999999999999999999",
                                 "1e308",
                                 "1e999",
                                 "-0.0",
                                 "nan",
                                 "inf",
                                 "0x1p-149",
                                 "true",
                                 "\"",
                                 "'",
                                 "\\",
                                 "\n",
                                 "\t",
                                 ",",
                                 ":",
                                 "+",
                                 "=",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 "..",
                                 "/",
                                 "\xff",
                                 "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80",
                                 "\xef\xbb\xbf"};

void change(std::string& text, const std::vector<std::string>& corpus, Draws& draw) {
  const auto place = [&] { return draw.below(text.size() + 1); };
  const auto run = [&](std::size_t from) { return from >= text.size() ? 0 : 1 + draw.below(std::min<std::size_t>(text.size() - from, 64)); };
  // Mostly what leaves the length as it is: a payload of another length is refused at once.
  constexpr int kinds[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 8};
  switch (kinds[draw.below(std::size(kinds))]) {
    case 0:  // a bit
      if (!text.empty()) text[draw.below(text.size())] ^= static_cast<char>(1u << draw.below(8));
      return;
    case 1:  // a byte
      if (!text.empty()) text[draw.below(text.size())] = static_cast<char>(draw.below(256));
      return;
    case 2: {  // a number of 1, 2, 4 or 8 bytes
      const std::size_t size = std::size_t{1} << draw.below(4);
      const std::uint64_t value = ends_of_ranges[draw.below(std::size(ends_of_ranges))];
      if (text.size() >= size) std::memcpy(text.data() + draw.below(text.size() - size + 1), &value, size);
      return;
    }
    case 3: {  // a number that stands there, a little more or less
      if (text.empty()) return;
      char& c = text[draw.below(text.size())];
      c = static_cast<char>(c + static_cast<char>(draw.below(9)) - 4);
      return;
    }
    case 4: {  // cut out
      const std::size_t from = place();
      text.erase(from, run(from));
      return;
    }
    case 5: {  // doubled
      const std::size_t from = place();
      const std::string piece = text.substr(from, run(from));
      text.insert(place(), piece);
      return;
    }
    case 6:  // a word
      text.insert(place(), words[draw.below(std::size(words))]);
      return;
    case 7:  // the end is gone
      text.resize(place());
      return;
    default: {  // a piece of another
      const std::string& other = corpus[draw.below(corpus.size())];
      const std::size_t from = draw.below(other.size() + 1);
      const std::string piece = other.substr(from, 1 + draw.below(128));
      const std::size_t to = place();
      if (draw.below(2) == 0)
        text.insert(to, piece);
      else
        text.replace(to, piece.size(), piece);
    }
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& corpus, const Random& random, std::uint64_t i, bool first_line_stays, std::size_t longest) {
  Draws draw(random, i);
  std::string text = corpus[draw.below(corpus.size())];
  std::string head;
  if (first_line_stays) {
    const std::size_t end = text.find('\n');
    head = text.substr(0, end == std::string::npos ? end : end + 1);
    text.erase(0, head.size());
  }
  for (std::size_t changes = 1 + draw.below(1 + draw.below(8)); changes > 0; --changes) change(text, corpus, draw);
  text.resize(std::min(text.size(), longest));
  return head + text;
}

}  // namespace thinwire::fuzz
