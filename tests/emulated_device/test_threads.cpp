// labels: unit
// How the emulator runs the threads of blocks: barriers, warp operations, and what ends a program instead of passing.
#include "tests/emulated_device/threads.cpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/emulated_device/cuda_emulation.h"

namespace thinwire::emulated {
// What cuda_emulation.h needs of streams.cpp; no kernel is queued here.
cudaError_t check_address(const void*) { return cudaSuccess; }
cudaError_t check_words(const void*, std::size_t) { return cudaSuccess; }

namespace {

TEST(EmulatedThreads, EveryThreadOfEveryBlockRunsOnce) {
  for (const dim3 shape : {dim3(1), dim3(33), dim3(7, 5), dim3(1024)}) {
    std::vector<int> runs(3 * shape.x * shape.y);
    run_grid(3, shape, [&] { ++runs[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x]; });
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
    EXPECT_EQ(gridDim.x, 3u);
  }
}

TEST(EmulatedThreads, NobodyPassesABarrierBeforeAllHaveCome) {
  for (const unsigned threads : {1u, 31u, 64u, 257u}) {
    std::vector<unsigned> shared(threads), seen(threads);
    run_grid(2, dim3(threads), [&] {
      const unsigned t = threadIdx.x;
      for (unsigned turn = 0; turn < 3; ++turn) {
        shared[t] = 100 * turn + t;
        __syncthreads();
        seen[t] = shared[(t + 1) % threads];
        __syncthreads();
        EXPECT_EQ(seen[t], 100 * turn + (t + 1) % threads);
      }
    });
  }
}

TEST(EmulatedThreads, ThreadsThatHaveEndedAreNotWaitedFor) {
  int passed = 0;
  run_grid(1, dim3(70), [&] {
    if (threadIdx.x % 2 == 0) return;
    __syncthreads();
    __syncwarp();
    ++passed;
  });
  EXPECT_EQ(passed, 35);
}

TEST(EmulatedThreads, WarpOperationsExchangeWhatTheLanesGave) {
  run_grid(1, dim3(48), [&] {  // a warp and a half
    const int t = static_cast<int>(threadIdx.x), lanes = t < 32 ? 32 : 16, lane = t % 32;
    int sum = t;
    for (int step = 1; step < lanes; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    EXPECT_EQ(sum, t < 32 ? 31 * 32 / 2 : (32 + 47) * 8);
    EXPECT_EQ(__shfl_sync(0xffffffffu, 10 * t, 5), 10 * (t - lane + 5));
    EXPECT_EQ(__shfl_up_sync(0xffffffffu, t, 3u), lane >= 3 ? t - 3 : t);
    EXPECT_EQ(__ballot_sync(0xffffffffu, lane % 3 == 0), 0x49249249u & (t < 32 ? 0xffffffffu : 0xffffu));
    if (lane >= 8) return;  // who has ended takes no part in a ballot
    EXPECT_EQ(__ballot_sync(0xffu, 1), 0xffu);
  });
}

TEST(EmulatedThreads, StacksAreUsedAgainByLaterBlocks) {
  const std::size_t before = fibers.size();
  for (int i = 0; i < 50; ++i) run_grid(5, dim3(64), [] { __syncthreads(); });
  EXPECT_LE(fibers.size(), std::max<std::size_t>(before, 64));
}

TEST(EmulatedThreadsDeathTest, ABarrierThatSomeThreadsNeverReachEndsTheProgram) {
  EXPECT_DEATH(run_grid(1, dim3(64),
                        [] {
                          if (threadIdx.x < 32) __syncthreads();
                          else if (threadIdx.x < 40) __syncwarp();
                          else if (threadIdx.x < 64) __syncthreads();
                        }),
               "wait for each other at different barriers");
}

TEST(EmulatedThreadsDeathTest, AStackThatOverflowsIsNoSilentDamage) {
  EXPECT_DEATH(run_grid(1, dim3(1),
                        [] {
                          volatile char large[200'000];
                          for (std::size_t i = sizeof large; i-- > 0;) large[i] = 1;
                        }),
               "");
}

}  // namespace
}  // namespace thinwire::emulated
