// Tables of Unicode (unicode_tables.cpp, made by scripts/make_unicode_tables.py), for unicode.cpp alone. All are sorted by character.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::unicode {

/// Of general categories: control Cc and Cf, space Zs, separator Zl and Zp, punctuation P*, mark Mn. Of the final sigma: cased, ignored.
enum class Class : std::uint8_t { other, control, space, separator, punctuation, mark, cased, ignored };

struct Range {
  char32_t first, last;
  Class value;
};
/// Characters first .. last have this canonical combining class; the rest have 0.
struct CombiningRange {
  char32_t first, last;
  std::uint8_t value;
};
/// The small letter of first, first + step .. last is `difference` away.
struct LowerRun {
  char32_t first, last;
  std::int32_t step, difference;
};
/// What stands for a character; second 0: one character does.
struct Pair {
  char32_t from, first, second;
};

extern const char* const version;
extern const Range classes[], cases[];
extern const CombiningRange combining[];
extern const LowerRun lower_runs[];
extern const Pair lower_pairs[], decompositions[];
extern const std::size_t classes_count, cases_count, combining_count, lower_runs_count, lower_pairs_count, decompositions_count;

}  // namespace thinwire::unicode
