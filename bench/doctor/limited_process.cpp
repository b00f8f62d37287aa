#include "bench/doctor/limited_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/clock.h"
#include "core/error.h"

namespace thinwire::bench {
namespace {

constexpr std::size_t most_output = 1 << 20;

[[noreturn]] void become_child(int write_end, const std::function<int()>& body) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(write_end, STDOUT_FILENO);
  dup2(write_end, STDERR_FILENO);
  int status = 1;
  try {
    status = body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::fflush(nullptr);
  _exit(status);  // not exit(): the parent's static objects are not the child's to destroy
}

// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& output) {
  char block[4096];
  for (;;) {
    const ssize_t n = read(fd, block, sizeof block);
    if (n > 0) {
      if (output.size() < most_output) output.append(block, static_cast<std::size_t>(n));
      continue;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

// Waits until the child ended or `seconds` passed, collecting its output.
bool wait_for(pid_t child, int fd, double seconds, int& status, std::string& output) {
  const Stopwatch watch;
  bool open = true;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (open) open = drain(fd, output);
    if (ended == child) return true;
    if (watch.seconds() >= seconds) return false;
    pollfd waiting{fd, POLLIN, 0};
    if (open) poll(&waiting, 1, 10);
    else usleep(10'000);
  }
}

}  // namespace

std::string ProcessResult::ending() const {
  if (timed_out) return "did not end within its time";
  if (signal != 0) return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "ended with exit status " + std::to_string(exit_status);
}

ProcessResult run_limited(const std::function<int()>& body, double limit_s) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw EnvironmentError(std::string("no pipe for a child process: ") + std::strerror(errno));
  std::fflush(nullptr);  // or the child would print the parent's pending output again
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    throw EnvironmentError(std::string("no child process can be started: ") + std::strerror(errno) + "; see ulimit -u");
  }
  if (child == 0) become_child(ends[1], body);
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);

  ProcessResult result;
  int status = 0;
  if (!wait_for(child, ends[0], limit_s, status, result.output)) {
    result.timed_out = true;
    kill(-child, SIGTERM);
    if (!wait_for(child, ends[0], 2, status, result.output)) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
    }
  }
  close(ends[0]);
  if (WIFEXITED(status) && !result.timed_out) result.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status) && !result.timed_out) result.signal = WTERMSIG(status);
  return result;
}

ProcessResult run_limited(const std::vector<std::string>& command, double limit_s) {
  return run_limited(
      [&command]() {
        std::vector<char*> words;
        for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        execvp(words[0], words.data());
        std::fprintf(stderr, "%s: %s\n", words[0], std::strerror(errno));
        return 127;
      },
      limit_s);
}

}  // namespace thinwire::bench
