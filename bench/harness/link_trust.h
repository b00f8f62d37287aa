// Whether a row measured on a rated link may be believed: the link is calibrated with the payload that the row
// sent, and must reach its nominal rate within 15 %.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Share by which a link may miss its nominal rate.
inline constexpr double link_tolerance = 0.15;

class LinkTrust {
 public:
  explicit LinkTrust(BenchContext& context) : context_(context) {}
  /// Collective: calibrates the link, one-way and both ways at once, with the rows' payload sizes (rounded to a
  /// power of two; each size once per program run), sets link_gbps, marks rows MISTRUSTED with the reason, and
  /// hands the calibrations to the record. Does nothing on links without a nominal rate (shm).
  void judge(Measured& measured);

 private:
  BenchContext& context_;
};


}  // namespace thinwire::bench
