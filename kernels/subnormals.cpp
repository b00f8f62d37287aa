#include "kernels/subnormals.h"

#include <omp.h>

#include "core/error.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace thinwire {
namespace {

#if defined(__SSE2__)
constexpr unsigned results_to_zero = 0x8000, operands_as_zero = 0x0040, both = results_to_zero | operands_as_zero;

unsigned modes() { return _mm_getcsr() & both; }

/// In every thread that parallel_for may use: those that exist keep the modes that they began with.
void set_modes(unsigned wanted) {
#pragma omp parallel num_threads(omp_get_max_threads())
  _mm_setcsr((_mm_getcsr() & ~both) | wanted);
}
#else
constexpr unsigned both = 0;
unsigned modes() { throw EnvironmentError("subnormal numbers cannot be flushed on this processor; say --flush-subnormals false"); }
void set_modes(unsigned) {}
#endif

}  // namespace

SubnormalsFlushed::SubnormalsFlushed(bool flush) : flush_(flush) {
  if (!flush_) return;
  before_ = modes();
  set_modes(both);
}

SubnormalsFlushed::~SubnormalsFlushed() {
  if (flush_) set_modes(before_);
}

}  // namespace thinwire
