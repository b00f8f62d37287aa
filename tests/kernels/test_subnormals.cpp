// labels: unit
// Subnormal numbers are zero inside a scope, in every thread of parallel_for, and what they were outside.
#include <gtest/gtest.h>
#include <omp.h>

#include <limits>
#include <vector>

#include "kernels/subnormals.h"

namespace thinwire {
namespace {

// Not known to the compiler, which would compute with subnormal numbers whatever the processor does.
volatile float smallest = std::numeric_limits<float>::min();
volatile float half = 0.5f;

/// By thread: 1 where a subnormal result (half of the smallest normal number) is kept, and 2 where a subnormal operand (times 1e38) is.
std::vector<int> kept_by_thread(int threads) {
  volatile float subnormal = std::numeric_limits<float>::denorm_min();
  std::vector<int> kept(static_cast<std::size_t>(threads));
#pragma omp parallel num_threads(threads)
  kept[static_cast<std::size_t>(omp_get_thread_num())] = (smallest * half > 0 ? 1 : 0) + (subnormal * 1e38f > 0 ? 2 : 0);
  return kept;
}

TEST(Subnormals, AreZeroInAllThreadsWhileTheScopeLives) {
  const int threads = omp_get_max_threads();
  const std::vector<int> kept(static_cast<std::size_t>(threads), 3), flushed(static_cast<std::size_t>(threads), 0);
  EXPECT_EQ(kept_by_thread(threads), kept);
  {
    const SubnormalsFlushed scope;
    EXPECT_EQ(kept_by_thread(threads), flushed);
    {
      const SubnormalsFlushed inner, none(false);
      EXPECT_EQ(kept_by_thread(threads), flushed);
    }
    EXPECT_EQ(kept_by_thread(threads), flushed) << "an inner scope ends as it found things";
  }
  EXPECT_EQ(kept_by_thread(threads), kept);
  const SubnormalsFlushed none(false);
  EXPECT_EQ(kept_by_thread(threads), kept);
}

TEST(Subnormals, ThreadsThatBeginInsideAScopeHaveIt) {
  const SubnormalsFlushed scope;
  const int more = omp_get_max_threads() + 3;
  EXPECT_EQ(kept_by_thread(more), std::vector<int>(static_cast<std::size_t>(more), 0));
}

}  // namespace
}  // namespace thinwire
