// Runs `.cu` files on the host, so that the indexing and arithmetic of kernels are tested without a GPU: include
// this header, then the `.cu` file. Blocks run one after another; the threads of a block are fibers that stop at
// barriers and warp operations until those they wait for have arrived, so a barrier that some threads of a block never
// reach ends the program with a message instead of passing. Not emulated: memory order between barriers, blocks that
// run at the same time, alignment faults (the asan-ubsan preset reports misaligned vector accesses and accesses out
// of bounds).
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "core/half.h"

// Kernels read memory in other types than wrote it, which nvcc allows.
#pragma GCC optimize("no-strict-aliasing")

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // one block at a time
using std::fmaxf;
using std::fminf;
using std::rintf;

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
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

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9, cudaErrorNotSupported = 801 };
using cudaStream_t = void*;
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice };
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}

inline dim3 blockIdx, threadIdx, blockDim, gridDim;

template <typename T>
T emulated_exchange(T* p, T value) {
  const T before = *p;
  *p = value;
  return before;
}
inline std::uint32_t atomicOr(std::uint32_t* p, std::uint32_t bits) { return emulated_exchange(p, *p | bits); }
inline std::uint32_t atomicAnd(std::uint32_t* p, std::uint32_t bits) { return emulated_exchange(p, *p & bits); }
inline std::uint32_t atomicMax(std::uint32_t* p, std::uint32_t value) { return emulated_exchange(p, std::max(*p, value)); }
inline std::uint32_t atomicMin(std::uint32_t* p, std::uint32_t value) { return emulated_exchange(p, std::min(*p, value)); }
inline std::uint32_t atomicAdd(std::uint32_t* p, std::uint32_t value) { return emulated_exchange(p, *p + value); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long value) { return emulated_exchange(p, *p + value); }
inline double cospi(double x) { return std::cos(3.14159265358979323846 * x); }
inline void __threadfence() {}
inline int __popc(std::uint32_t bits) { return std::popcount(bits); }
inline int __ffs(std::uint32_t bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }

namespace thinwire::cuda {

constexpr unsigned warp_lanes = 32;

// The threads of the block that runs now.
struct Fibers {
  enum class State { running, at_warp, at_block, done };
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 * 1024);
    dim3 index;
    State state = State::done;
    std::uint64_t given = 0;  ///< to a warp operation
  };
  ucontext_t scheduler;
  std::vector<Fiber> all;
  std::size_t count = 0;
  Fiber* current = nullptr;
  std::function<void()> body;
};
inline Fibers fibers;

inline void fiber_main() {
  fibers.body();
  fibers.current->state = Fibers::State::done;
}

inline void stop_at(Fibers::State where) {
  fibers.current->state = where;
  swapcontext(&fibers.current->context, &fibers.scheduler);
}

// Lets go on who waits in [first, last) when all living threads there wait in the same way.
inline bool release(std::size_t first, std::size_t last, Fibers::State where) {
  bool any = false;
  for (std::size_t t = first; t < last; ++t) {
    if (fibers.all[t].state == Fibers::State::done) continue;
    if (fibers.all[t].state != where) return false;
    any = true;
  }
  if (any)
    for (std::size_t t = first; t < last; ++t)
      if (fibers.all[t].state == where) fibers.all[t].state = Fibers::State::running;
  return any;
}

inline void run_block(dim3 block) {
  const std::size_t count = std::size_t{block.x} * block.y;
  fibers.count = count;
  if (fibers.all.size() < count) fibers.all.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    Fibers::Fiber& f = fibers.all[t];
    f.index = dim3(static_cast<unsigned>(t % block.x), static_cast<unsigned>(t / block.x));
    f.state = Fibers::State::running;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &fibers.scheduler;
    makecontext(&f.context, fiber_main, 0);
  }
  for (;;) {  // each turn runs every thread that may go on to its next stop, then opens what has filled up
    bool living = false;
    for (std::size_t t = 0; t < count; ++t) {
      Fibers::Fiber& f = fibers.all[t];
      if (f.state == Fibers::State::running) {
        fibers.current = &f;
        threadIdx = f.index;
        swapcontext(&fibers.scheduler, &f.context);
      }
      living = living || f.state != Fibers::State::done;
    }
    if (!living) return;
    bool opened = false;
    for (std::size_t t = 0; t < count; t += warp_lanes) opened |= release(t, std::min<std::size_t>(count, t + warp_lanes), Fibers::State::at_warp);
    if (!opened && !release(0, count, Fibers::State::at_block)) {
      std::fprintf(stderr, "emulated kernel: threads of block %u wait for each other at different barriers\n", blockIdx.x);
      std::abort();
    }
  }
}

// Each thread of the warp gives a value and sees what another gave. Lanes that have ended give their last value.
template <typename T>
T warp_exchange(T value, unsigned lane) {
  static_assert(sizeof(T) <= 8);
  const std::size_t own = static_cast<std::size_t>(fibers.current - fibers.all.data());
  fibers.current->given = 0;
  std::memcpy(&fibers.current->given, &value, sizeof value);
  stop_at(Fibers::State::at_warp);
  const std::size_t from = own / warp_lanes * warp_lanes + lane;
  T seen = value;
  if (lane < warp_lanes && from < fibers.count) std::memcpy(&seen, &fibers.all[from].given, sizeof seen);
  stop_at(Fibers::State::at_warp);  // nobody gives the next value before all have seen this one
  return seen;
}
// For warp operations on more than a word: every lane shows the address of something of its own, looks at what the others
// show, and calls hide() when it has seen enough.
inline void show(const void* p) {
  fibers.current->given = reinterpret_cast<std::uintptr_t>(p);
  stop_at(Fibers::State::at_warp);
}
template <typename T>
const T* shown_by(int lane) {
  const std::size_t own = static_cast<std::size_t>(fibers.current - fibers.all.data());
  return reinterpret_cast<const T*>(static_cast<std::uintptr_t>(fibers.all[own / warp_lanes * warp_lanes + static_cast<std::size_t>(lane)].given));
}
inline void hide() { stop_at(Fibers::State::at_warp); }
inline unsigned lane_of_thread() { return static_cast<unsigned>(fibers.current - fibers.all.data()) % warp_lanes; }

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, dim3 block, void*, Arguments... arguments) {
  if (blocks < 0 || blocks > 0x7fffffff || block.x * block.y > 1024) return cudaErrorInvalidConfiguration;
  fibers.body = [=] { kernel(arguments...); };
  blockDim = block;
  gridDim = dim3(static_cast<unsigned>(blocks));
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

inline void __syncthreads() { thinwire::cuda::stop_at(thinwire::cuda::Fibers::State::at_block); }
inline void __syncwarp(std::uint32_t = 0xffffffffu) { thinwire::cuda::stop_at(thinwire::cuda::Fibers::State::at_warp); }
template <typename T>
T __shfl_xor_sync(std::uint32_t, T value, int lanes) {
  return thinwire::cuda::warp_exchange(value, thinwire::cuda::lane_of_thread() ^ static_cast<unsigned>(lanes));
}
template <typename T>
T __shfl_up_sync(std::uint32_t, T value, unsigned lanes) {
  const unsigned own = thinwire::cuda::lane_of_thread();
  return thinwire::cuda::warp_exchange(value, own >= lanes ? own - lanes : own);
}
template <typename T>
T __shfl_sync(std::uint32_t, T value, int lane) {
  return thinwire::cuda::warp_exchange(value, static_cast<unsigned>(lane));
}
inline std::uint32_t __ballot_sync(std::uint32_t, int predicate) {
  using thinwire::cuda::fibers;
  using thinwire::cuda::Fibers;
  fibers.current->given = predicate != 0 ? 1 : 0;
  const std::size_t first = static_cast<std::size_t>(fibers.current - fibers.all.data()) / thinwire::cuda::warp_lanes * thinwire::cuda::warp_lanes;
  thinwire::cuda::stop_at(Fibers::State::at_warp);
  std::uint32_t bits = 0;
  for (std::size_t lane = 0; lane < thinwire::cuda::warp_lanes && first + lane < fibers.count; ++lane)
    if (const auto& f = fibers.all[first + lane]; f.state != Fibers::State::done && f.given != 0) bits |= 1u << lane;
  thinwire::cuda::stop_at(Fibers::State::at_warp);
  return bits;
}
