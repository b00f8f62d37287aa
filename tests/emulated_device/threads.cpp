#include "tests/emulated_device/threads.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace thinwire::emulated {

// A stack that threads run on, one after another as long as none stops: kernels without barriers need one for all. swapcontext makes
// two system calls, so it only starts a stack; from then on the compiler's setjmp and longjmp switch, which are a handful of instructions (the
// library's do three times the work and may refuse to go to another stack). AddressSanitizer follows swapcontext alone.
struct Fiber {
  ucontext_t context;
  void* place[5];
  bool started = false;
};

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
Fiber host;
const std::function<void()>* thread_body = nullptr;

#if !defined(__SANITIZE_ADDRESS__)
[[gnu::noinline, noreturn]] void resume(Fiber& fiber) {  // not from the function that has called setjmp
  if (fiber.started) __builtin_longjmp(fiber.place, 1);
  fiber.started = true;
  setcontext(&fiber.context);
  std::abort();
}
#endif
[[gnu::noinline]] void switch_to(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  swapcontext(&from.context, &to.context);
#else
  from.started = true;  // the host as well
  if (__builtin_setjmp(from.place) == 0) resume(to);
#endif
}

[[noreturn]] void deadlock() {
  unsigned at_warp = 0;
  for (unsigned t = 0; t < block.count; ++t) at_warp += block.threads[t].state == ThreadState::at_warp ? 1 : 0;
  std::fprintf(stderr, "emulated kernel: threads of block %u wait for each other at different barriers (%u at a warp's, %u at the block's)\n",
               blockIdx.x, at_warp, block.at_barrier);
  std::abort();
}

void set_going(unsigned first, unsigned last, ThreadState from) {
  for (unsigned t = first; t < last; ++t)
    if (block.threads[t].state == from) block.threads[t].state = ThreadState::running;
}
void open_warp(unsigned w) {
  Warp& warp = block.warps[w];
  warp.waiting = 0;
  const unsigned first = w * warp_lanes, last = first + warp_lanes < block.count ? first + warp_lanes : block.count;
  std::uint32_t present = 0;
  for (unsigned t = first; t < last; ++t)
    if (block.threads[t].state == ThreadState::at_warp) present |= 1u << (t - first);
  warp.present[warp.turn] = present;
  warp.turn ^= 1;
  set_going(first, last, ThreadState::at_warp);
}
void open_block() {
  block.at_barrier = 0;
  set_going(0, block.count, ThreadState::at_block);
}

// The next thread after the current one that can run; null when all are done.
Thread* next_thread() {
  const unsigned own = block.current->number;
  for (unsigned i = 1; i <= block.count; ++i) {
    const unsigned t = own + i < block.count ? own + i : own + i - block.count;
    Thread& thread = block.threads[t];
    if (thread.state == ThreadState::running || thread.state == ThreadState::fresh) return &thread;
  }
  if (block.living > 0) deadlock();
  return nullptr;
}

void end_thread() {
  Thread& own = *block.current;
  own.state = ThreadState::done;
  Warp& warp = block.warp();
  --block.living, --warp.living;
  // Those that wait no longer wait for this one.
  if (warp.waiting > 0 && warp.waiting == warp.living) open_warp(own.number / warp_lanes);
  if (block.at_barrier > 0 && block.at_barrier == block.living) open_block();
}

void enter(Thread& thread, Fiber* fresh_fiber) {
  block.current = &thread;
  threadIdx = thread.index;
  if (fresh_fiber == nullptr) return;
  thread.fiber = fresh_fiber;
  thread.state = ThreadState::running;
}

// Whoever switches to a fiber in this loop has entered a fresh thread for it.
void run_threads() {
  for (;;) {
    (*thread_body)();
    end_thread();
    Fiber& own = *block.current->fiber;
    Thread* next = next_thread();
    if (next != nullptr && next->state == ThreadState::fresh) {
      enter(*next, &own);
      continue;
    }
    idle.push_back(&own);
    if (next != nullptr) enter(*next, nullptr);
    switch_to(own, next != nullptr ? *next->fiber : host);
  }
}

Fiber* idle_fiber() {
  if (idle.empty()) {
    auto fiber = std::make_unique<Fiber>();
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* stack = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) {  // past the stack's end nothing must be
      std::perror("stack of an emulated thread");
      std::abort();
    }
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = static_cast<char*>(stack) + page;
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, run_threads, 0);
    idle.push_back(fiber.get());
    fibers.push_back(std::move(fiber));
  }
  Fiber* fiber = idle.back();
  idle.pop_back();
  return fiber;
}

}  // namespace

void stop_at(ThreadState where) {
  Thread& own = *block.current;
  own.state = where;
  // The last to come goes on at once.
  if (where == ThreadState::at_warp) {
    Warp& warp = block.warp();
    if (++warp.waiting == warp.living) return open_warp(own.number / warp_lanes);
  } else if (++block.at_barrier == block.living) {
    return open_block();
  }
  Thread& next = *next_thread();
  const bool fresh = next.state == ThreadState::fresh;
  enter(next, fresh ? idle_fiber() : nullptr);
  switch_to(*own.fiber, *next.fiber);
}

void run_grid(std::int64_t blocks, dim3 shape, const std::function<void()>& body) {
  thread_body = &body;
  blockDim = shape;
  gridDim = dim3(static_cast<unsigned>(blocks));
  block.count = shape.x * shape.y;
  if (block.threads.size() < block.count) block.threads.resize(block.count);
  const unsigned warps = (block.count + warp_lanes - 1) / warp_lanes;
  if (block.warps.size() < warps) block.warps.resize(warps);
  for (unsigned t = 0; t < block.count; ++t) {
    block.threads[t].number = t;
    block.threads[t].index = dim3(t % shape.x, t / shape.x);
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    blockIdx = dim3(static_cast<unsigned>(b));
    block.living = block.count;
    block.at_barrier = 0;
    for (unsigned t = 0; t < block.count; ++t) block.threads[t].state = ThreadState::fresh;
    for (unsigned w = 0; w < warps; ++w) {
      block.warps[w].living = block.count - w * warp_lanes < warp_lanes ? block.count - w * warp_lanes : warp_lanes;
      block.warps[w].waiting = 0;
    }
    enter(block.threads[0], idle_fiber());
    switch_to(host, *block.threads[0].fiber);
  }
}

}  // namespace thinwire::emulated
