#include "collectives/process/node_info.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/process/environment.h"
#include "core/error.h"

namespace thinwire {
namespace {

int machine_ranks = 1, machine_rank = 0;
std::uint64_t machine_job = 0, machine_kernel = 0;
int lock_descriptor = -1;

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

}  // namespace thinwire
