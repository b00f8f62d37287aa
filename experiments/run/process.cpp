#include "experiments/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

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

// Runs in the child between fork and exec: async-signal-safe calls only. Reports errno through `report`.
[[noreturn]] void become(char* const* arguments, char* const* environment, const char* folder, int output,
                         int report, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun and launch.sh take their ranks with them on SIGTERM
  if (getppid() == parent) {         // else the parent died before the line above
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int s : {SIGINT, SIGTERM, SIGPIPE, SIGUSR1}) signal(s, SIG_DFL);
    if (*folder == '\0' || chdir(folder) == 0) execvpe(arguments[0], arguments, environment);
    const int error = errno;
    if (write(report, &error, sizeof error) < 0) _exit(126);
  }
  _exit(127);
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

// Whether a process has a handler for the signal, or keeps it blocked to wait for it (srun).
bool handles(pid_t pid, int signal_number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  const unsigned long long bit = 1ULL << (signal_number - 1);
  for (std::string line; std::getline(file, line);)
    if ((line.starts_with("SigCgt:") || line.starts_with("SigBlk:")) && (std::stoull(line.substr(7), nullptr, 16) & bit) != 0)
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
