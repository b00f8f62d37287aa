#include "experiments/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>

#include "core/clock.h"
#include "core/error.h"

extern char** environ;

namespace thinwire::sweep {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

constexpr std::int64_t grace_of_orphans_ns = 5'000'000'000;

// What is below runs in a child after fork: async-signal-safe calls only. Failures are an errno in `report`.

[[noreturn]] void tell(int report, int error) {
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

void set_all(std::initializer_list<int> signals, sighandler_t handler) {
  for (const int number : signals) signal(number, handler);
}

/// The command's end, and the death of this process.
sigset_t what_wakes_a_keeper() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGHUP);
  return set;
}

/// The process between this one and the command, leader of their group. It ends as the command does. When
/// this one dies, it ends the command: by SIGTERM, on which mpirun and launch.sh take their ranks with them,
/// and after a grace by SIGKILL: an mpirun that is to end early in its life can wait for ever (Open MPI 4.1.4
/// with PMIx 4.2.2: for a lock in PMIx_server_finalize, when its ranks are gone).
[[noreturn]] void keep(pid_t command, pid_t parent) {
  prctl(PR_SET_NAME, "keeper");
  signal(SIGCHLD, SIG_DFL);
  set_all({SIGINT, SIGTERM, SIGPIPE, SIGUSR1}, SIG_IGN);  // the command gets the group's itself
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  close_range(3, ~0U, 0);  // else locks of this process would outlive it
  const sigset_t wakers = what_wakes_a_keeper();
  const timespec second{1, 0};
  for (std::int64_t orphan_since = 0;; sigtimedwait(&wakers, nullptr, &second)) {
    int status = 0;
    if (waitpid(command, &status, WNOHANG) == command) {
      if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
      const rlimit no_core{0, 0};  // the command's is there
      setrlimit(RLIMIT_CORE, &no_core);
      signal(WTERMSIG(status), SIG_DFL);
      sigprocmask(SIG_UNBLOCK, &wakers, nullptr);
      kill(getpid(), WTERMSIG(status));
      _exit(128 + WTERMSIG(status));
    }
    if (getppid() == parent) continue;
    if (orphan_since == 0) {
      orphan_since = now_ns();
      kill(command, SIGTERM);
    }
    if (now_ns() - orphan_since >= grace_of_orphans_ns) kill(0, SIGKILL);
  }
}

[[noreturn]] void become(char* const* arguments, char* const* environment, const char* folder, int output,
                         int report, pid_t parent) {
  setpgid(0, 0);
  const sigset_t wakers = what_wakes_a_keeper();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &wakers, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (getppid() != parent) _exit(127);  // it died before the line above
  const pid_t keeper = getpid(), command = _Fork();
  if (command < 0) tell(report, errno);
  if (command > 0) keep(command, parent);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper) _exit(127);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  set_all({SIGINT, SIGTERM, SIGPIPE, SIGUSR1}, SIG_DFL);
  if (*folder == '\0' || chdir(folder) == 0) execvpe(arguments[0], arguments, environment);
  tell(report, errno);
}

pid_t start(const Command& command, int output) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    throw RuntimeFailure(std::string("cannot make a pipe: ") + std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    become(argument_pointers.data(), environment_pointers.data(), command.folder.c_str(), output, report[1],
           parent);
  close(report[1]);
  int error = errno;
  const bool started =
      pid > 0 && read(report[0], &error, sizeof error) == 0;  // the pipe closes at a successful exec
  close(report[0]);
  if (started) return pid;
  if (pid > 0) waitpid(pid, nullptr, 0);
  throw EnvironmentError("cannot start `" + command.arguments[0] + "`: " + std::strerror(error) +
                         "; build it, install it (scripts/setup.sh), or name its folder with --bin");
}

// Children by parent, by /proc.
std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/proc", std::filesystem::directory_options::skip_permission_denied)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(')');  // the name in parentheses may hold anything
    if (end == std::string::npos || end + 4 >= text.size()) continue;
    if (text[end + 2] == 'Z') continue;
    children.emplace(std::stoi(text.substr(end + 4)), std::stoi(name));
  }
  return children;
}

std::vector<pid_t> descendants() {
  const std::multimap<pid_t, pid_t> children = children_by_parent();
  std::vector<pid_t> found, todo = {getpid()};
  while (!todo.empty()) {
    const pid_t parent = todo.back();
    todo.pop_back();
    const auto [from, to] = children.equal_range(parent);
    for (auto at = from; at != to; ++at) {
      found.push_back(at->second);
      todo.push_back(at->second);
    }
  }
  return found;
}

/// Name and children of a process that runs; nothing where it does not, or only waits to be reaped.
struct Seen {
  std::string name;
  std::vector<pid_t> children;
};
std::optional<Seen> look_at(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream file(folder + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t begin = text.find('('), end = text.rfind(')');
  if (begin == std::string::npos || end + 2 >= text.size() || text[end + 2] == 'Z' || text[end + 2] == 'X')
    return std::nullopt;
  Seen seen{text.substr(begin + 1, end - begin - 1), {}};
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", gone)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) seen.children.push_back(child);
  }
  return seen;
}

// Whether a process has a handler for the signal, or keeps it blocked to wait for it (srun).
bool handles(pid_t pid, int signal_number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  const unsigned long long bit = 1ULL << (signal_number - 1);
  for (std::string line; std::getline(file, line);)
    if ((line.starts_with("SigCgt:") || line.starts_with("SigBlk:")) &&
        (std::stoull(line.substr(7), nullptr, 16) & bit) != 0)
      return true;
  return false;
}

Ending ending_of(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

std::string Ending::to_string() const {
  if (signal != 0) return "killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit status " + std::to_string(exit_status);
}

Process::Process(const Command& command) {
  const int log = open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0)
    throw EnvironmentError(command.log + ": cannot write the log: " + std::strerror(errno) +
                           "; choose a folder that you may write to");
  try {
    pid_ = start(command, log);
  } catch (...) {
    close(log);
    throw;
  }
  close(log);
}

Process::~Process() {
  if (pid_ > 0 && !ending_) terminate(1);
}

std::optional<Ending> Process::poll() {
  if (ending_) return ending_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) ending_ = ending_of(status);
  return ending_;
}

void Process::request_stop() {
  if (poll()) return;
  const std::multimap<pid_t, pid_t> children = children_by_parent();
  for (std::vector<pid_t> todo = {pid_}; !todo.empty();) {
    const pid_t pid = todo.back();
    todo.pop_back();
    if (handles(pid, SIGUSR1)) {
      kill(pid, SIGUSR1);
      continue;
    }
    const auto [from, to] = children.equal_range(pid);
    for (auto at = from; at != to; ++at) todo.push_back(at->second);
  }
}

bool Process::has_mpirun_without_ranks() {
  if (poll()) return false;
  bool found = false;
  // true where the process runs
  const std::function<bool(pid_t)> visit = [&](pid_t pid) {
    const std::optional<Seen> seen = look_at(pid);
    if (!seen) return false;
    bool ranks = false;
    for (const pid_t child : seen->children) ranks = visit(child) || ranks;
    if (seen->name == "mpirun") {
      if (ranks) had_ranks_.insert(pid);
      found = found || (!ranks && had_ranks_.contains(pid));
    }
    return true;
  };
  visit(pid_);
  return found;
}

void Process::terminate(double grace_seconds) {
  if (!poll()) {  // once it was waited for, its number may belong to somebody else
    kill(-pid_, SIGTERM);
    const Stopwatch watch;
    while (watch.seconds() < grace_seconds && !poll()) sleep_until_ns(now_ns() + 20'000'000);
    if (!poll()) kill(-pid_, SIGKILL);
    while (!poll()) sleep_until_ns(now_ns() + 5'000'000);
  }
  // What the group left behind was adopted by this process.
  for (std::vector<pid_t> left = descendants(); !left.empty(); left = descendants()) {
    for (const pid_t pid : left) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    sleep_until_ns(now_ns() + 5'000'000);
  }
  while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::optional<std::string> output_of(const std::vector<std::string>& arguments, double limit_seconds) {
  int output[2];
  if (pipe2(output, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  pid_t pid = -1;
  try {
    pid = start({arguments, {}, "", ""}, output[1]);
  } catch (const EnvironmentError&) {
    close(output[0]);
    close(output[1]);
    return std::nullopt;
  }
  close(output[1]);
  std::string text;
  const Stopwatch watch;
  bool ended = false;
  while (!ended && watch.seconds() < limit_seconds) {
    pollfd ready{output[0], POLLIN, 0};
    ::poll(&ready, 1, 100);
    char block[4096];
    ssize_t n;
    while ((n = read(output[0], block, sizeof block)) > 0) text.append(block, static_cast<std::size_t>(n));
    ended = n == 0;
  }
  close(output[0]);
  if (!ended) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace thinwire::sweep
