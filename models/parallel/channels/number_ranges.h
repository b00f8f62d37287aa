// "all", or numbers and ranges: "0-3,6".
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace thinwire {

class NumberRanges {
 public:
  /// UsageError naming `what` and the faulty part.
  static NumberRanges parse(const std::string& what, const std::string& text);
  bool contains(int number) const;
  /// The largest number named; -1 for "all".
  int largest() const;

 private:
  bool all_ = false;
  std::vector<std::pair<int, int>> ranges_;  ///< inclusive
};

}  // namespace thinwire
