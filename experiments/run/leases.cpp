#include "experiments/run/leases.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/process/log.h"
#include "experiments/run/lock.h"
#include "results/files/files.h"

namespace thinwire::sweep {

namespace fs = std::filesystem;

namespace {

constexpr double touch_every = 10, dead_after = 90;  // seconds

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

struct Lease {
  std::string who, machine;
  std::vector<std::string> cells;
};

Lease read_lease(const std::string& path) {
  Lease lease;
  try {
    const nlohmann::json json = nlohmann::json::parse(results::read_file(path));
    lease.who = json.at("who").get<std::string>();
    lease.machine = json.at("machine").get<std::string>();
    lease.cells = json.at("cells").get<std::vector<std::string>>();
  } catch (const std::exception&) {
    // Cut off while it was written: its owner died, or is about to write it again under the guard that we hold.
  }
  return lease;
}

// The file server's clock, which stamped the other files as well.
double server_now(const std::string& folder) {
  const std::string path = folder + "/.clock";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return static_cast<double>(std::time(nullptr));
  futimens(file, nullptr);
  struct stat info {};
  fstat(file, &info);
  close(file);
  return static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
}

bool is_dead(const std::string& path, const Lease& lease, double now) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  const bool is_free = flock(file, LOCK_SH | LOCK_NB) == 0;
  struct stat info {};
  fstat(file, &info);
  close(file);
  if (!is_free) return false;
  return lease.machine == machine_id() || now - static_cast<double>(info.st_mtim.tv_sec) > dead_after;
}

template <typename Visit>
void for_each_lease(const std::string& folder, Visit visit) {
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (entry.path().extension() == ".json") visit(entry.path().string());
}

}  // namespace

CellLeases::CellLeases(const std::string& out, const std::string& key, const std::string& who)
    : folder_(out + "/leases"), path_(folder_ + "/" + key + ".json"), who_(who) {
  results::make_folder(folder_);
  bool told = false;
  for (const Stopwatch watch;;) {
    if (is_mine()) return;
    if (!std::exchange(told, true)) log_info("waiting for another runner of the same name, " + read_lease(path_).who + ", or what it left running");
    if (watch.seconds() > 120)  // the remains of a killed predecessor need a moment to end, on a busy machine a long one
      throw EnvironmentError("another runner (" + read_lease(path_).who + ") works in " + out + " under the same name; wait for it");
    sleep_until_ns(now_ns() + 100'000'000);
  }
}

bool CellLeases::is_mine() {
  const FolderGuard guard(folder_, ".lock");  // reading, judging and writing a lease are one step
  file_ = open(path_.c_str(), O_RDWR | O_CREAT, 0644);  // no O_CLOEXEC: what this process starts holds the lock as well
  if (file_ < 0)
    throw EnvironmentError(path_ + ": cannot be written: " + std::strerror(errno) + "; choose a folder that you may write to");
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) {
    write();
    return true;
  }
  close(file_);
  file_ = -1;
  return false;
}

CellLeases::~CellLeases() {
  if (file_ < 0) return;
  try {
    const FolderGuard guard(folder_, ".lock");  // reading, judging and writing a lease are one step
    struct stat mine {}, there {};
    if (fstat(file_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) unlink(path_.c_str());
  } catch (const Error&) {
    // The lease dies with this process all the same.
  }
  close(file_);
}

std::map<std::string, std::string> CellLeases::take(std::span<const std::string> cells) {
  const FolderGuard guard(folder_, ".lock");  // reading, judging and writing a lease are one step
  const double now = server_now(folder_);
  std::map<std::string, std::string> taken;
  for_each_lease(folder_, [&](const std::string& path) {
    if (path == path_) return;
    const Lease lease = read_lease(path);
    if (is_dead(path, lease, now)) {
      unlink(path.c_str());
      return;
    }
    for (const std::string& cell : lease.cells) taken[cell] = lease.who;
  });
  std::map<std::string, std::string> others;
  for (const std::string& cell : cells) {
    const auto owner = taken.find(cell);
    if (owner == taken.end())
      cells_.insert(cell);
    else
      others.insert(*owner);
  }
  write();
  return others;
}

bool CellLeases::renew() {
  if (since_touch_.seconds() < touch_every) return true;
  since_touch_.restart();
  struct stat mine {}, there {};
  if (fstat(file_, &mine) != 0 || stat(path_.c_str(), &there) != 0 || mine.st_ino != there.st_ino) return false;
  futimens(file_, nullptr);
  return true;
}

// In place, not by rename: the lock belongs to this very file.
void CellLeases::write() {
  const nlohmann::json json{{"schema", 1}, {"who", who_}, {"machine", machine_id()}, {"cells", cells_}};
  const std::string text = json.dump() + "\n";
  if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    throw RuntimeFailure(path_ + ": cannot be written: " + std::strerror(errno) + "; free some space");
  since_touch_.restart();
}

std::map<std::string, std::string> leased_cells(const std::string& out) {
  std::map<std::string, std::string> held;
  const std::string folder = out + "/leases";
  std::error_code unreadable;
  if (!fs::exists(folder, unreadable)) return held;
  for_each_lease(folder, [&](const std::string& path) {
    const Lease lease = read_lease(path);
    if (is_dead(path, lease, static_cast<double>(std::time(nullptr)))) return;
    for (const std::string& cell : lease.cells) held[cell] = lease.who;
  });
  return held;
}

}  // namespace thinwire::sweep
