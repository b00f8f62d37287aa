// One runner per result folder, and short locks.
#pragma once

#include <string>

namespace thinwire::sweep {

class FolderLock {
 public:
  /// Locks OUT/.lock. Throws EnvironmentError naming the process that holds it. Children inherit the lock:
  /// when a runner was killed, the next one waits (up to 120 s) until the remains of its launch are gone.
  explicit FolderLock(const std::string& out);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int file_ = -1;
};

/// For short steps of reading, judging and writing what several processes change: waits until nobody else holds FOLDER/`name`.
class FolderGuard {
 public:
  /// EnvironmentError where the file cannot be written or locked.
  FolderGuard(const std::string& folder, const std::string& name);
  FolderGuard(const FolderGuard&) = delete;
  FolderGuard& operator=(const FolderGuard&) = delete;
  ~FolderGuard();

 private:
  int file_ = -1;
};

}  // namespace thinwire::sweep
