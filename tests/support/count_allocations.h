// Counts heap allocations of a test program: operator new and the aligned_alloc behind Buffer. Include it in
// one source file of the program only: it replaces the global functions.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace thinwire::testing {
inline std::atomic<long> allocations{0};
inline std::atomic<std::size_t> largest_allocation{0};  ///< bytes; a test sets it back to 0
inline void count_allocation(std::size_t size) {
  ++allocations;
  for (std::size_t largest = largest_allocation; size > largest && !largest_allocation.compare_exchange_weak(largest, size);) {
  }
}
}  // namespace thinwire::testing

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  thinwire::testing::count_allocation(size);
  return memalign(alignment, size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  thinwire::testing::count_allocation(size);
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
