// Derived quantities: one definition each, used by benches, records and tests.
#pragma once

#include <cmath>
#include <cstdint>

namespace thinwire {

/// Break-even bandwidth in Gbit/s per rank: on a slower link the codec pays, on a faster one it does not.
/// w* = 8 (link_dense - link_compressed) / (t_encode + t_decode); bytes, microseconds. 0 when nothing is saved.
inline double break_even_gbps(double link_dense_bytes, double link_compressed_bytes, double codec_us) {
  const double saved = link_dense_bytes - link_compressed_bytes;
  if (saved <= 0) return 0;
  return 8.0 * saved / (codec_us * 1e3);
}

/// Time in microseconds that `bytes` take at `gbps` Gbit/s, without latency.
inline double link_time_us(double bytes, double gbps) { return 8.0 * bytes / (gbps * 1e3); }

/// nccl-tests' algorithm bandwidth in 1e9 bytes per second: dense bytes of one rank over time.
inline double algorithm_bandwidth(double bytes, double time_us) { return bytes / (time_us * 1e3); }

/// nccl-tests' factor from algbw to busbw (its doc/PERFORMANCE.md): what the busiest link must carry.
inline double bus_factor_all_reduce(int ranks) { return ranks > 1 ? 2.0 * (ranks - 1) / ranks : 1.0; }
inline double bus_factor_scatter_or_gather(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

/// Fraction of the memory bound that a codec reaches: ideal time over measured time, where the ideal moves
/// (bytes read + bytes written) at twice the memcpy rate (memcpy reads and writes each byte it counts once).
inline double bound_fraction(double bytes_read, double bytes_written, double memcpy_gbytes_per_second, double time_us) {
  return (bytes_read + bytes_written) / (2.0 * memcpy_gbytes_per_second * 1e3) / time_us;
}

}  // namespace thinwire
