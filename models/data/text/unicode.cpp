#include "models/data/text/unicode.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "models/data/text/unicode_tables.h"

namespace thinwire::unicode {
namespace {

/// The entry of a sorted table whose first .. last holds `c`, or nullptr.
template <typename Entry>
const Entry* find_range(const Entry* table, std::size_t count, char32_t c) {
  const Entry* after = std::upper_bound(table, table + count, c, [](char32_t value, const Entry& e) { return value < e.first; });
  return after != table && c <= after[-1].last ? after - 1 : nullptr;
}

const Pair* find_pair(const Pair* table, std::size_t count, char32_t c) {
  const Pair* found = std::lower_bound(table, table + count, c, [](const Pair& p, char32_t value) { return p.from < value; });
  return found != table + count && found->from == c ? found : nullptr;
}

Class looked_up(char32_t c) {
  const Range* found = find_range(classes, classes_count, c);
  return found ? found->value : Class::other;
}

Class class_of(char32_t c) {
  static const auto ascii = [] {
    std::array<Class, 128> all;
    for (char32_t a = 0; a < all.size(); ++a) all[a] = looked_up(a);
    return all;
  }();
  return c < ascii.size() ? ascii[c] : looked_up(c);
}

constexpr char32_t capital_sigma = 0x3A3, small_sigma = 0x3C3, final_sigma = 0x3C2;

/// Whether a cased letter comes next in `letters`, those that are ignored left aside.
template <typename Letters>
bool cased_first(const Letters& letters) {
  for (const char32_t c : letters) {
    const Range* found = find_range(cases, cases_count, c);
    if (!found || found->value == Class::cased) return found != nullptr;
  }
  return false;
}

/// Final_Sigma of Unicode, table 3-17: a cased letter before it, none after it.
bool ends_a_word(std::u32string_view text, std::size_t at) {
  return cased_first(text.substr(0, at) | std::views::reverse) && !cased_first(text.substr(at + 1));
}

void append_lower(std::u32string& out, char32_t c) {
  if (const Pair* two = find_pair(lower_pairs, lower_pairs_count, c)) {
    out += two->first;
    out += two->second;
    return;
  }
  const LowerRun* run = find_range(lower_runs, lower_runs_count, c);
  const bool capital = run && (c - run->first) % static_cast<char32_t>(run->step) == 0;
  out += capital ? static_cast<char32_t>(static_cast<std::int32_t>(c) + run->difference) : c;
}

std::uint8_t combining_class(char32_t c) {
  const CombiningRange* found = find_range(combining, combining_count, c);
  return found ? found->value : 0;
}

void append_decomposed(std::u32string& out, char32_t c) {
  // Hangul syllables by arithmetic: Unicode, 3.12, "Hangul Syllable Decomposition".
  constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7, vowel_count = 21, trail_count = 28;
  if (c >= syllables && c < syllables + 19 * vowel_count * trail_count) {
    const char32_t index = c - syllables;
    out += leads + index / (vowel_count * trail_count);
    out += vowels + index / trail_count % vowel_count;
    if (index % trail_count != 0) out += trails + index % trail_count;
    return;
  }
  const Pair* found = find_pair(decompositions, decompositions_count, c);
  if (!found) {
    out += c;
    return;
  }
  append_decomposed(out, found->first);  // the table has one step
  if (found->second) append_decomposed(out, found->second);
}

/// Length in bytes of the character that begins `text`, and its value; 0 bytes: none does (Unicode, table 3-7).
std::size_t decode(std::string_view text, char32_t& c) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    c = lead;
    return 1;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  c = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t shortest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
  return c < shortest[length] || c > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

std::string_view version_name() { return version; }
bool is_control(char32_t c) { return class_of(c) == Class::control; }
bool is_space(char32_t c) { return class_of(c) == Class::space; }
bool is_separator(char32_t c) { return class_of(c) == Class::separator; }
bool is_punctuation(char32_t c) { return class_of(c) == Class::punctuation; }
bool is_mark(char32_t c) { return class_of(c) == Class::mark; }

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == capital_sigma)
      out += ends_a_word(text, i) ? final_sigma : small_sigma;
    else
      append_lower(out, text[i]);
  }
  return out;
}

std::u32string decomposed(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_decomposed(out, c);
  // Canonical order: marks between two characters of class 0 are sorted by their class, those of one class stay as they are.
  for (auto begin = out.begin(); begin != out.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, out.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  return out;
}

std::u32string from_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode(text, c);
    if (length != 0) out += c;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

void append_utf8(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

}  // namespace thinwire::unicode
