// The threads of the block that runs now: fibers that go on until they stop at a barrier or a warp operation. Blocks run one after
// another. A barrier that some threads of a block never reach ends the program with a message instead of passing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

struct dim3 {
  unsigned x, y;
  dim3(unsigned x_, unsigned y_ = 1) : x(x_), y(y_) {}
  dim3() : dim3(1) {}
};
inline dim3 blockIdx, threadIdx, blockDim, gridDim;

namespace thinwire::emulated {

constexpr unsigned warp_lanes = 32;

enum class ThreadState : std::uint8_t { fresh, running, at_warp, at_block, done };

struct Fiber;

struct Thread {
  ThreadState state = ThreadState::fresh;
  std::uint8_t turn = 0;  ///< of its warp when it last stopped there
  unsigned number = 0;
  dim3 index;
  Fiber* fiber = nullptr;
  std::uint64_t given[2] = {};  ///< to warp operations: two, since a fast lane gives its next value before all have seen this one
};

struct Warp {
  unsigned living = 0, waiting = 0;
  std::uint8_t turn = 0;            ///< flips whenever its lanes go on
  std::uint32_t present[2] = {};    ///< which lanes took part
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  unsigned count = 0, living = 0, at_barrier = 0;
  Thread* current = nullptr;
  Warp& warp() { return warps[current->number / warp_lanes]; }
};
inline Block block;

/// The current thread goes on when all living threads of its warp, or of the block, have come to the same kind of stop.
void stop_at(ThreadState where);

/// Runs `body` for every thread of every block. The shape is at most 1024 threads.
void run_grid(std::int64_t blocks, dim3 shape, const std::function<void()>& body);

inline unsigned lane_of_thread() { return block.current->number % warp_lanes; }
/// Gives a value and waits until every lane has; then what the lanes gave can be read until the next stop.
inline void give(std::uint64_t value) {
  Thread& own = *block.current;
  own.turn = block.warp().turn;
  own.given[own.turn] = value;
  stop_at(ThreadState::at_warp);
}
inline bool took_part(unsigned lane) { return (block.warp().present[block.current->turn] >> lane & 1) != 0; }
inline std::uint64_t given_by(unsigned lane) {
  return block.threads[block.current->number / warp_lanes * warp_lanes + lane].given[block.current->turn];
}

}  // namespace thinwire::emulated
