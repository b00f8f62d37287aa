// Counts heap allocations of a test program: operator new and the aligned_alloc behind Buffer. Include it in
// one source file of the program only: it replaces the global functions.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace thinwire::testing {
inline std::atomic<long> allocations{0};
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++thinwire::testing::allocations;
  return memalign(alignment, size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++thinwire::testing::allocations;
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
