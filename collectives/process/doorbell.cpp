#include "collectives/process/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "core/clock.h"

namespace thinwire {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel compares the number itself");

}  // namespace

void Doorbell::ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() > 0) ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::wait(std::uint32_t seen, std::int64_t until_ns) {
  // FUTEX_WAIT_BITSET takes a point in time; FUTEX_WAIT takes a length.
  const timespec until{static_cast<time_t>(until_ns / 1'000'000'000), static_cast<long>(until_ns % 1'000'000'000)};
  wake_in_time();
  sleepers_.fetch_add(1);  // before the kernel compares: who rings after that sees a sleeper
  ::syscall(SYS_futex, &rings_, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  sleepers_.fetch_sub(1);
}

}  // namespace thinwire
