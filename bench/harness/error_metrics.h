// How far a result is from its float64 reference. One definition for all benches.
#pragma once

#include <span>
#include <string>

#include "collectives/communicator/communicator.h"
#include "results/row.h"

namespace thinwire::bench {

///   relative_l2    ||x - ref|| / ||ref||; for a zero reference 0 when x is zero too, else infinity
///   vnmse          ||x - ref||^2 / ||ref||^2, its square
///   cosine         <x, ref> / (||x|| ||ref||); 1 when both are zero, 0 when one is
///   bias           mean(x - ref) / rms(ref); 0 when nothing is wrong with a zero reference
///   slope_bias     <x, ref> / <ref, ref> - 1 = <x - ref, ref> / ||ref||^2; 0 for a zero reference with x = 0, else NaN
///   zero_fraction  share of elements of x that are exactly zero
/// A metric more: its field in results/row.h, its column in results/row.cpp, its formula in ErrorSums::metrics.
struct ErrorMetrics : results::ErrorColumns {
  void fill(results::CellRow& row) const { static_cast<results::ErrorColumns&>(row) = *this; }
};

/// Threaded; sums in float64 per thread. NaN in `x` gives NaN metrics.
ErrorMetrics error_metrics(std::span<const float> x, std::span<const double> reference);
/// The same against an f32 reference (a tensor and its decoded self).
ErrorMetrics error_metrics(std::span<const float> x, std::span<const float> reference);

/// What the metrics are made of, summed over blocks of a result, so that no block needs a copy.
class ErrorSums {
 public:
  void add(std::span<const float> x, std::span<const double> reference);
  void add(std::span<const float> x, std::span<const float> reference);
  ErrorMetrics metrics() const;
  /// The blocks of all ranks together. Collective; ranks may have added blocks of different sizes, or none.
  ErrorMetrics metrics_over_ranks(Communicator& world) const;

 private:
  template <typename Reference>
  void add_block(std::span<const float> x, std::span<const Reference> reference);
  struct Sums {
    double wrong = 0, length = 0, norm = 0, dot = 0, error = 0, zeros = 0, count = 0;
  };
  Sums sums_;
};

/// The same over the blocks of all ranks together. Collective; blocks may differ in size and be empty.
ErrorMetrics error_metrics_over_ranks(Communicator& world, std::span<const float> x, std::span<const double> reference);

/// sum += x in float64, threaded: the reference of a reduction over ranks.
void add_to(std::span<double> sum, std::span<const float> x);

/// Throws WrongResult naming `what` unless relative_l2 <= tolerance (NaN fails).
void require_close(const ErrorMetrics& metrics, double tolerance, const std::string& what);

}  // namespace thinwire::bench
