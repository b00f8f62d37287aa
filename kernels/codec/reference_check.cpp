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

void require_as_near(std::span<const float> x, std::span<const float> decoded, const std::vector<double>& reference, const std::vector<double>& offsets) {
  constexpr double roundings = 4e-6;  // of f32: some tens of units in the last place
  constexpr double roundings_of_offset = 4e-7;  // it is subtracted and added once each
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double here = decoded[i], there = reference[i], offset = offsets.empty() ? 0 : std::fabs(offsets[i]),
                 slack = roundings * (std::fabs(double{x[i]}) + std::fabs(here) + std::fabs(there)) + roundings_of_offset * offset;
    if (std::fabs(here - x[i]) <= std::fabs(there - x[i]) + slack) continue;
    throw WrongResult("element " + std::to_string(i) + ", " + std::to_string(x[i]) + ", became " + std::to_string(here) + " where the float64 reference has " + std::to_string(there) + ", which is nearer");
  }
}

void require_kept_values(std::span<const float> x, std::span<const float> decoded, bool largest, double factor) {
  std::vector<double> dropped_squares;
  double lost = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (decoded[i] != 0) {
      ++kept;
      const double expected = factor * x[i];
      if (!(std::abs(decoded[i] - expected) <= 0x1p-11 * std::abs(expected) + 0x1p-24))
        throw WrongResult("element " + std::to_string(i) + " should be " + std::to_string(expected) + " and came back as " + std::to_string(decoded[i]));
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
