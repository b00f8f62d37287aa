// Runs `.cu` files on the host, so that the indexing and arithmetic of kernels are tested without a GPU: include
// this header, then the `.cu` file. Blocks run one after another; the threads of a block are fibers that take
// turns at __syncthreads(). Not emulated: warps, memory order between barriers, alignment faults (the asan-ubsan
// preset reports misaligned vector accesses and accesses out of bounds).
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "core/half.h"

#define __global__
#define __device__
#define __shared__ static  // one block at a time
using std::fmaxf;
using std::fminf;
using std::rintf;

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) ushort4 {
  std::uint16_t x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct dim3 {
  unsigned x, y;
  dim3(unsigned x_, unsigned y_ = 1) : x(x_), y(y_) {}
  dim3() : dim3(1) {}
};

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
using cudaStream_t = void*;
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

inline dim3 blockIdx, threadIdx, blockDim;

inline std::uint32_t atomicOr(std::uint32_t* p, std::uint32_t bits) {
  const std::uint32_t before = *p;
  *p |= bits;
  return before;
}
inline std::uint32_t atomicMax(std::uint32_t* p, std::uint32_t value) {
  const std::uint32_t before = *p;
  *p = std::max(*p, value);
  return before;
}

namespace thinwire::cuda {

// The threads of the block that runs now.
struct Fibers {
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 * 1024);
    dim3 index;
    bool done = false;
  };
  ucontext_t scheduler;
  std::vector<Fiber> all;
  Fiber* current = nullptr;
  std::function<void()> body;
};
inline Fibers fibers;

inline void fiber_main() {
  fibers.body();
  fibers.current->done = true;
}

inline void run_block(dim3 block) {
  const std::size_t count = std::size_t{block.x} * block.y;
  if (fibers.all.size() < count) fibers.all.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    Fibers::Fiber& f = fibers.all[t];
    f.index = dim3(static_cast<unsigned>(t % block.x), static_cast<unsigned>(t / block.x));
    f.done = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &fibers.scheduler;
    makecontext(&f.context, fiber_main, 0);
  }
  for (bool any = true; any;) {  // each turn runs every thread to its next barrier or its end
    any = false;
    for (std::size_t t = 0; t < count; ++t) {
      Fibers::Fiber& f = fibers.all[t];
      if (f.done) continue;
      fibers.current = &f;
      threadIdx = f.index;
      swapcontext(&fibers.scheduler, &f.context);
      any = true;
    }
  }
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, dim3 block, void*, Arguments... arguments) {
  if (blocks < 0 || blocks > 0x7fffffff || block.x * block.y > 1024) return cudaErrorInvalidConfiguration;
  fibers.body = [=] { kernel(arguments...); };
  blockDim = block;
  for (std::int64_t b = 0; b < blocks; ++b) {
    blockIdx = dim3(static_cast<unsigned>(b));
    run_block(block);
  }
  return cudaSuccess;
}

template <typename Call>
int on_device(int, const Call& call) {
  return static_cast<int>(call());
}

}  // namespace thinwire::cuda

inline void __syncthreads() {
  using thinwire::cuda::fibers;
  swapcontext(&fibers.current->context, &fibers.scheduler);
}
