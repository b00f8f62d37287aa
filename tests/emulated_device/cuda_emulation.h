// What a `.cu` file sees where CUDA's headers and launches would be: included before it, the file compiles for the host. Kernels run
// block by block (threads.h) when the stream they were launched on comes to them (streams.h). Not emulated: memory order between
// barriers, blocks that run at the same time, alignment faults (the asan-ubsan preset reports misaligned vector accesses).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/device/module_entry.h"
#include "core/half.h"
#include "tests/emulated_device/runtime.h"
#include "tests/emulated_device/streams.h"
#include "tests/emulated_device/threads.h"

#include "core/device/cuda_scope.cuh"  // over that runtime

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

inline void __syncthreads() { thinwire::emulated::stop_at(thinwire::emulated::ThreadState::at_block); }
inline void __syncwarp(std::uint32_t = 0xffffffffu) { thinwire::emulated::stop_at(thinwire::emulated::ThreadState::at_warp); }
/// Each lane gives a value and sees what another gave: its own where there is none.
template <typename T>
T emulated_shuffle(T value, unsigned lane) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  thinwire::emulated::give(word);
  if (lane >= thinwire::emulated::warp_lanes || !thinwire::emulated::took_part(lane)) return value;
  word = thinwire::emulated::given_by(lane);
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <typename T>
T __shfl_xor_sync(std::uint32_t, T value, int lanes) {
  return emulated_shuffle(value, thinwire::emulated::lane_of_thread() ^ static_cast<unsigned>(lanes));
}
template <typename T>
T __shfl_up_sync(std::uint32_t, T value, unsigned lanes) {
  const unsigned own = thinwire::emulated::lane_of_thread();
  return emulated_shuffle(value, own >= lanes ? own - lanes : own);
}
template <typename T>
T __shfl_sync(std::uint32_t, T value, int lane) {
  return emulated_shuffle(value, static_cast<unsigned>(lane));
}
inline std::uint32_t __ballot_sync(std::uint32_t, int predicate) {
  thinwire::emulated::give(predicate != 0 ? 1 : 0);
  std::uint32_t bits = 0;
  for (unsigned lane = 0; lane < thinwire::emulated::warp_lanes; ++lane)
    if (thinwire::emulated::took_part(lane) && thinwire::emulated::given_by(lane) != 0) bits |= 1u << lane;
  return bits;
}

namespace thinwire::cuda {

// For warp operations on more than a word: every lane shows the address of something of its own, looks at what the others
// show, and calls hide() when it has seen enough.
inline void show(const void* p) { emulated::give(reinterpret_cast<std::uintptr_t>(p)); }
template <typename T>
const T* shown_by(int lane) {
  return reinterpret_cast<const T*>(static_cast<std::uintptr_t>(emulated::given_by(static_cast<unsigned>(lane))));
}
inline void hide() { __syncwarp(); }

/// Queues a kernel (kernels/cuda/launch.cuh). Arguments that are addresses of the host are refused, as a device would stop at them. Returns the last
/// error of the thread, as that does: one that an earlier call has left behind, too.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, dim3 shape, void* stream, Arguments... arguments) {
  if (blocks == 0) return cudaSuccess;
  if (blocks < 0 || blocks > 0x7fffffff || shape.x * shape.y > 1024 || shape.x * shape.y == 0) return cudaErrorInvalidConfiguration;
  const auto check = [](const auto& argument) {
    using Argument = std::decay_t<decltype(argument)>;
    if constexpr (std::is_pointer_v<Argument>) return emulated::check_address(argument);
#if __has_builtin(__builtin_clear_padding)
    if constexpr (std::is_class_v<Argument>) {  // without what lay there before: it may look like an address
      Argument words(argument);
      __builtin_clear_padding(&words);
      return emulated::check_words(&words, sizeof words);
    }
#endif
    return cudaSuccess;
  };
  cudaError_t error = cudaSuccess;
  ((error = error == cudaSuccess ? check(arguments) : error), ...);
  if (error == cudaSuccess) error = emulated::queue_work(stream, [=] { emulated::run_grid(blocks, shape, [=] { kernel(arguments...); }); });
  (void)emulated::noted(error);
  return cudaGetLastError();
}

/// As core/device/cuda_scope.cuh has it for nvcc. The name of the entry point, for messages, is in the type of `call`.
template <typename Call>
int on_device(int ordinal, const Call& call) {
  emulated::EntryScope scope(__PRETTY_FUNCTION__);
  const cudaError_t chosen = use_device(ordinal);
  return scope.leave(leave(chosen != cudaSuccess ? static_cast<int>(chosen) : static_cast<int>(call())));
}

}  // namespace thinwire::cuda
