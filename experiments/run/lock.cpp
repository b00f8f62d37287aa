#include "experiments/run/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/clock.h"
#include "core/error.h"
#include "core/process/log.h"

namespace thinwire::sweep {

namespace {

pid_t owner_of(int file) {
  char text[32] = {};
  return pread(file, text, sizeof text - 1, 0) > 0 ? static_cast<pid_t>(std::atoi(text)) : 0;
}

bool is_alive(pid_t pid) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

FolderLock::FolderLock(const std::string& out) {
  const std::string path = out + "/.lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT, 0644);  // no O_CLOEXEC: the launch holds the lock as well
  if (file_ < 0)
    throw EnvironmentError(path + ": cannot be written: " + std::strerror(errno) +
                           "; choose a folder that you may write to");
  const Stopwatch watch;
  bool said = false;
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const pid_t owner = owner_of(file_);
    if (error != EWOULDBLOCK && error != EINTR) {
      close(file_);
      throw EnvironmentError(path + ": this file system does not lock files (" + std::strerror(error) +
                             "); choose another folder");
    }
    if (is_alive(owner) || watch.seconds() > 120) {  // its remains end within seconds, or later on a busy machine
      close(file_);
      throw EnvironmentError("another sweep (process " + std::to_string(owner) + ") is running in " + out +
                             "; wait for it, or choose another folder with --out");
    }
    if (!said)
      log_info("the sweep that ran in " + out + " was killed; waiting for the rest of its launch to end");
    said = true;
    sleep_until_ns(now_ns() + 50'000'000);
  }
  const std::string me = std::to_string(getpid()) + "\n";
  // A note for the message above; the lock itself does not depend on it (full disk).
  if (ftruncate(file_, 0) != 0 || pwrite(file_, me.data(), me.size(), 0) < 0)
    log_debug(path + ": cannot note the owner");
}

FolderLock::~FolderLock() {
  if (file_ < 0) return;
  if (ftruncate(file_, 0) != 0) log_debug("lock: cannot clear the owner");
  close(file_);
}

FolderGuard::FolderGuard(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) throw EnvironmentError(path + ": cannot be written: " + std::strerror(errno) + "; choose a folder that you may write to");
  while (flock(file_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const std::string why = std::strerror(errno);
      close(file_);
      throw EnvironmentError(path + ": this file system does not lock files (" + why + "); choose another folder");
    }
}

FolderGuard::~FolderGuard() { close(file_); }

}  // namespace thinwire::sweep
