// What this machine's memory gives right now: the bound that codecs are measured against.
#pragma once

#include <cstddef>

namespace thinwire {

struct MemoryRate {
  std::size_t bytes = 0;    ///< size of the copied block
  int threads = 0;
  double gb_per_s = 0;      ///< 1e9 bytes copied per second (each byte is read once and written once)
  double best_gb_per_s = 0; ///< of the fastest repetition
};

/// Median rate of memcpy of `bytes` over `threads` OpenMP threads (0 = OMP_NUM_THREADS), each copying its own
/// part, until `seconds` have passed and at least 5 repetitions are done. Measure in the same run as what is
/// compared with it: the rate of a shared machine changes within minutes.
MemoryRate measure_memory_rate(std::size_t bytes, int threads = 0, double seconds = 0.1);

/// Least time in seconds for work that reads and writes so many bytes: (read + written) / (2 x copy rate).
double memory_bound_seconds(std::size_t bytes_read, std::size_t bytes_written, const MemoryRate& rate);

}  // namespace thinwire
