#include "models/parallel/channels/number_ranges.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/error.h"

namespace thinwire {

NumberRanges NumberRanges::parse(const std::string& what, const std::string& text) {
  NumberRanges result;
  if (text == "all") {
    result.all_ = true;
    return result;
  }
  const auto refuse = [&](const std::string& part) {
    throw UsageError(what + " = \"" + text + "\": '" + part + "' is neither a number nor a range. Write all, or e.g. 0-3,6");
  };
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto number = [&](const std::string& digits) {
      int value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size() || value < 0) refuse(part);
      return value;
    };
    const int first = number(part.substr(0, dash)), last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    if (last < first) refuse(part);
    result.ranges_.emplace_back(first, last);
  }
  if (result.ranges_.empty()) refuse(text);
  return result;
}

bool NumberRanges::contains(int number) const {
  return all_ || std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& r) { return r.first <= number && number <= r.second; });
}

int NumberRanges::largest() const {
  int most = -1;
  for (const auto& [first, last] : ranges_) most = std::max(most, last);
  return most;
}

}  // namespace thinwire
