// One runner per result folder.
#pragma once

#include <string>

namespace thinwire::sweep {

class FolderLock {
 public:
  /// Locks OUT/.lock. Throws EnvironmentError naming the process that holds it. Children inherit the lock:
  /// when a runner was killed, the next one waits (up to 20 s) until the remains of its launch are gone.
  explicit FolderLock(const std::string& out);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int file_ = -1;
};

}  // namespace thinwire::sweep
