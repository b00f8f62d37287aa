#include "collectives/process/node_info.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/error.h"

namespace thinwire {
namespace {

int machine_ranks = 1, machine_rank = 0;
std::uint64_t machine_job = 0, machine_kernel = 0;
std::atomic<int> quiet_count = 0, longer_nap_us = 0;
int lock_descriptor = -1;

// Polling with a yield in between costs others little and covers the steps of a collective over shared
// memory; longer waits are for a slow link or for a rank that computes, and a nap then costs little in
// proportion. (Measured at 4 ranks on 2 cores: napping after 50 us doubled an all-reduce of 256 KiB.)
constexpr std::int64_t spin_before_nap_ns = 1'000'000;
constexpr long nap_ns = 20'000;

bool nap_when_waiting() {
  static const bool nap = [] {
    const std::string wait = Environment::get("THINWIRE_WAIT").value_or("auto");
    if (wait == "spin") return false;
    if (wait == "nap") return true;
    if (wait == "auto") return NodeInfo::oversubscription() > 1;
    throw UsageError("THINWIRE_WAIT=" + wait + " is none of spin, nap, auto");
  }();
  return nap;
}

}  // namespace

void NodeInfo::set(int ranks_here, int rank_here, std::uint64_t job, std::uint64_t kernel) {
  machine_ranks = ranks_here;
  machine_rank = rank_here;
  machine_job = job;
  machine_kernel = kernel;
}

int NodeInfo::ranks_here() {
  return machine_ranks;
}

int NodeInfo::rank_here() {
  return machine_rank;
}

std::uint64_t NodeInfo::kernel() {
  return machine_kernel;
}

int NodeInfo::cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

double NodeInfo::oversubscription() {
  return static_cast<double>(machine_ranks) / cores();
}

std::string NodeInfo::lock_path() {
  std::string folder = "/dev/shm";
  if (access(folder.c_str(), W_OK) != 0) {
    folder = Environment::get("TMPDIR").value_or("/tmp");
  }
  return folder + "/thinwire-" + std::to_string(getuid()) + "-" + std::to_string(machine_job) + ".lock";
}

void NodeInfo::remove_lock() {
  if (lock_descriptor < 0) return;
  close(lock_descriptor);
  lock_descriptor = -1;
  unlink(lock_path().c_str());
}

MachineLock::MachineLock() {
  if (lock_descriptor < 0) {
    lock_descriptor = open(NodeInfo::lock_path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (lock_descriptor < 0) {
      throw EnvironmentError("cannot create the lock " + NodeInfo::lock_path() + ": " + std::strerror(errno) +
                             "; serial measuring needs a writable /dev/shm or TMPDIR");
    }
  }
  while (flock(lock_descriptor, LOCK_EX) != 0) {
    if (errno != EINTR)
      throw EnvironmentError("cannot lock " + NodeInfo::lock_path() + ": " + std::strerror(errno));
  }
}

MachineLock::~MachineLock() {
  flock(lock_descriptor, LOCK_UN);
}

Waiter::Quiet::Quiet(int nap_us) {
  longer_nap_us = std::max(longer_nap_us.load(), nap_us);
  ++quiet_count;
}
Waiter::Quiet::~Quiet() {
  if (--quiet_count == 0) longer_nap_us = 0;
}

void Waiter::pause() {
  const bool quiet = quiet_count.load(std::memory_order_relaxed) > 0;
  if (!quiet && !nap_when_waiting()) return;
  if (!quiet) {
    const std::int64_t now = now_ns();
    if (started_ns_ == 0) started_ns_ = now;
    if (now - started_ns_ < spin_before_nap_ns) {
      sched_yield();
      return;
    }
  }
  // The default timer slack of 50 us would triple the nap.
  static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  (void)slack;
  const timespec nap{0, std::max(nap_ns, 1000L * longer_nap_us.load(std::memory_order_relaxed))};
  nanosleep(&nap, nullptr);
}

}  // namespace thinwire
