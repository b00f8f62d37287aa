// parallel_for over ranges on OpenMP. OMP_NUM_THREADS decides how many threads; small ranges stay on one.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace thinwire {

/// Elements below which waking a second thread costs more than it saves (about 10 us of memory traffic).
inline constexpr std::int64_t default_grain = 32 * 1024;

/// Threads that parallel_for would use for `count` items with this grain; 1 inside a parallel region.
inline int threads_for(std::int64_t count, std::int64_t grain = default_grain) {
  if (count <= grain || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), (count + grain - 1) / grain));
}

/// Calls body(begin, end, thread) on disjoint ranges that cover [0, count), one range per thread. Range
/// bounds are multiples of `align` (but the last end), so SIMD blocks and cache lines are not shared. The
/// cut depends on the number of threads alone: results of reductions are reproducible for a given number.
/// An exception of a body is rethrown after all threads ended.
template <typename Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, std::int64_t align, const Body& body) {
  if (count <= 0) return;
  const int threads = threads_for(count, grain);
  if (threads == 1) {
    body(std::int64_t{0}, count, 0);
    return;
  }
  const std::int64_t blocks = (count + align - 1) / align;
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    const int team = omp_get_num_threads();
    const std::int64_t begin = std::min(count, blocks * thread / team * align);
    const std::int64_t end = std::min(count, blocks * (thread + 1) / team * align);
    try {
      if (begin < end) body(begin, end, thread);
    } catch (...) {
#pragma omp critical(thinwire_parallel_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls body(begin, end) on disjoint ranges that cover [0, count).
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_ranges(count, grain, 64, [&](std::int64_t begin, std::int64_t end, int) { body(begin, end); });
}
template <typename Body>
void parallel_for(std::int64_t count, const Body& body) {
  parallel_for(count, default_grain, body);
}

}  // namespace thinwire
