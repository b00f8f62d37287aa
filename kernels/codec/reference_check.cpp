#include "kernels/codec/reference_check.h"

#include <algorithm>
#include <cmath>

namespace thinwire {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw WrongResult(what);
}

}  // namespace

void require_near_reference(std::span<const float> decoded, const std::vector<double>& reference, double tolerance) {
  double wrong = 0, all = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (std::isnan(reference[i])) continue;
    wrong += (decoded[i] - reference[i]) * (decoded[i] - reference[i]);
    all += reference[i] * reference[i];
  }
  const double d = all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
  require(d <= tolerance, "its result differs from the float64 reference by " + std::to_string(d) + " (relative L2), at most " + std::to_string(tolerance) +
                              " is right");
}

void require_kept_values(std::span<const float> x, std::span<const float> decoded, bool largest) {
  std::vector<double> dropped_squares;
  double lost = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (decoded[i] != 0) {
      ++kept;
      require(std::abs(double{decoded[i]} - x[i]) <= 0x1p-11 * std::abs(double{x[i]}) + 0x1p-24,
              "element " + std::to_string(i) + " is " + std::to_string(x[i]) + " and came back as " + std::to_string(decoded[i]));
    } else {
      lost += double{x[i]} * x[i];
    }
  }
  if (!largest) return;
  dropped_squares.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) dropped_squares[i] = double{x[i]} * x[i];
  const auto cut = dropped_squares.end() - static_cast<std::ptrdiff_t>(kept);
  std::nth_element(dropped_squares.begin(), cut, dropped_squares.end());
  double least = 0;
  for (auto it = dropped_squares.begin(); it != cut; ++it) least += *it;
  require(lost <= least * (1 + 1e-9) + 1e-30, "it kept " + std::to_string(kept) + " elements that are not the largest");
}

void require_projection(std::span<const float> x, std::span<const float> decoded) {
  double all = 0, kept = 0, lost = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    all += double{x[i]} * x[i];
    kept += double{decoded[i]} * decoded[i];
    lost += (double{x[i]} - decoded[i]) * (double{x[i]} - decoded[i]);
  }
  require(std::abs(all - kept - lost) <= 1e-3 * all, "its result is no orthogonal projection of its input");
}

}  // namespace thinwire
