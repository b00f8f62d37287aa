#include "kernels/memory_rate.h"

#include <omp.h>

#include <cstring>
#include <vector>

#include "core/clock.h"
#include "core/device/device.h"
#include "core/error.h"
#include "core/statistics.h"

namespace thinwire {

MemoryRate measure_memory_rate(std::size_t bytes, int threads, double seconds) {
  TW_ASSERT(bytes > 0 && threads >= 0);
  if (threads == 0) threads = omp_get_max_threads();
  Buffer from_buffer(bytes), to_buffer(bytes);
  std::byte* from = from_buffer.data();
  std::byte* to = to_buffer.data();
  const auto copy_parts = [&](const auto& copy) {
#pragma omp parallel num_threads(threads)
    {
      const auto team = static_cast<std::size_t>(omp_get_num_threads());
      const auto me = static_cast<std::size_t>(omp_get_thread_num());
      const std::size_t begin = bytes / 64 * me / team * 64;
      const std::size_t end = me + 1 == team ? bytes : bytes / 64 * (me + 1) / team * 64;
      copy(begin, end - begin);
    }
  };
  // First touch by the thread that copies later: pages lie near it, and are not the shared zero page.
  copy_parts([&](std::size_t begin, std::size_t n) {
    std::memset(from + begin, 1, n);
    std::memset(to + begin, 2, n);
  });
  std::vector<double> rates;
  const Stopwatch total;
  while (rates.size() < 5 || (total.seconds() < seconds && rates.size() < 100'000)) {
    const Stopwatch one;
    copy_parts([&](std::size_t begin, std::size_t n) { std::memcpy(to + begin, from + begin, n); });
    rates.push_back(static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(one.elapsed_ns(), 1)));
  }
  TW_ASSERT(std::memcmp(to, from, bytes) == 0);  // and the copies cannot be optimised away
  const Summary summary = summarize(rates);
  return {bytes, threads, summary.median, summary.maximum};
}

double memory_bound_seconds(std::size_t bytes_read, std::size_t bytes_written, const MemoryRate& rate) {
  return static_cast<double>(bytes_read + bytes_written) / (2e9 * rate.gb_per_s);
}

}  // namespace thinwire
