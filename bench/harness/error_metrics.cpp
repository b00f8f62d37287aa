#include "bench/harness/error_metrics.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <string>

#include "core/error.h"
#include "kernels/threads.h"

namespace thinwire::bench {
template <typename Reference>
void ErrorSums::add_block(std::span<const float> x, std::span<const Reference> reference) {
  TW_ASSERT(x.size() == reference.size());
  Sums& s = sums_;
  s.count += static_cast<double>(x.size());
  std::mutex mutex;
  parallel_for(static_cast<std::int64_t>(x.size()), [&](std::int64_t begin, std::int64_t end) {
    double w = 0, l = 0, n = 0, d = 0, e = 0;
    std::int64_t z = 0;
#pragma omp simd reduction(+ : w, l, n, d, e, z)
    for (std::int64_t i = begin; i < end; ++i) {
      const double a = x[static_cast<std::size_t>(i)], b = reference[static_cast<std::size_t>(i)];
      const double difference = a - b;
      w += difference * difference;
      l += a * a;
      n += b * b;
      d += a * b;
      e += difference;
      z += a == 0 ? 1 : 0;
    }
    const std::lock_guard lock(mutex);
    s.wrong += w, s.length += l, s.norm += n, s.dot += d, s.error += e, s.zeros += static_cast<double>(z);
  });
}

void ErrorSums::add(std::span<const float> x, std::span<const double> reference) { add_block(x, reference); }
void ErrorSums::add(std::span<const float> x, std::span<const float> reference) { add_block(x, reference); }

ErrorMetrics ErrorSums::metrics() const {
  const auto& [wrong, length, norm, dot, error, zeros, count] = sums_;
  ErrorMetrics m;
  if (count == 0) {  // nothing is wrong with nothing
    m.relative_l2 = m.vnmse = m.bias = m.slope_bias = m.zero_fraction = 0;
    m.cosine = 1;
    return m;
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  m.vnmse = norm > 0 ? wrong / norm : wrong > 0 ? infinity : wrong;
  m.relative_l2 = std::sqrt(m.vnmse);
  m.bias = norm > 0 ? error / count / std::sqrt(norm / count) : error != 0 ? std::copysign(infinity, error) : error;
  m.cosine = norm > 0 && length > 0 ? dot / std::sqrt(norm) / std::sqrt(length) : norm == 0 && length == 0 ? 1 : norm + length >= 0 ? 0 : norm + length;
  m.slope_bias = norm > 0 ? dot / norm - 1 : wrong == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  m.zero_fraction = zeros / count;
  return m;
}

ErrorMetrics ErrorSums::metrics_over_ranks(Communicator& world) const {
  ErrorSums all;
  static_assert(sizeof(Sums) == 7 * sizeof(double));
  world.all_reduce(&sums_, &all.sums_, 7, DType::f64, ReduceOp::sum)->wait();
  return all.metrics();
}

ErrorMetrics error_metrics(std::span<const float> x, std::span<const double> reference) {
  ErrorSums sums;
  sums.add(x, reference);
  return sums.metrics();
}
ErrorMetrics error_metrics(std::span<const float> x, std::span<const float> reference) {
  ErrorSums sums;
  sums.add(x, reference);
  return sums.metrics();
}

ErrorMetrics error_metrics_over_ranks(Communicator& world, std::span<const float> x, std::span<const double> reference) {
  ErrorSums sums;
  sums.add(x, reference);
  return sums.metrics_over_ranks(world);
}

void add_to(std::span<double> sum, std::span<const float> x) {
  TW_ASSERT(sum.size() == x.size());
  parallel_for(static_cast<std::int64_t>(x.size()), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) sum[static_cast<std::size_t>(i)] += x[static_cast<std::size_t>(i)];
  });
}

void require_close(const ErrorMetrics& metrics, double tolerance, const std::string& what) {
  if (metrics.relative_l2 <= tolerance) return;
  throw WrongResult(what + ": relative L2 error " + std::to_string(metrics.relative_l2) + " against the float64 reference, at most " +
                    std::to_string(tolerance) + " expected; the row is not timed. Please report it with the command line");
}

}  // namespace thinwire::bench
