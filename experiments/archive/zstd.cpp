#include "experiments/archive/zstd.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/error.h"

extern char** environ;

namespace thinwire::sweep {
namespace {

/// zstd with its standard input or output at a pipe's other end, and its messages in a file without a name.
class Zstd {
 public:
  /// `file`: read by it (decompressing) or written by it.
  Zstd(const std::vector<std::string>& arguments, const std::string& file, bool compress)
      : compress_(compress) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw RuntimeFailure(std::string("no pipe to zstd: ") + std::strerror(errno));
    pipe_ = ends[compress ? 1 : 0];
    const int theirs = ends[compress ? 0 : 1];
    messages_ = message_file();
    const int other =
        open(file.c_str(), compress ? O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
    if (other < 0) {
      const std::string why = std::strerror(errno);
      close(theirs);
      close_all();
      throw EnvironmentError(file + ": cannot be " + (compress ? "written" : "read") + " (" + why + ")");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, compress ? theirs : other, 0);
    posix_spawn_file_actions_adddup2(&actions, compress ? other : theirs, 1);
    posix_spawn_file_actions_adddup2(&actions, messages_, 2);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const int error = posix_spawnp(&child_, "zstd", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(theirs);
    close(other);
    if (error != 0) {
      child_ = -1;
      close_all();
      throw EnvironmentError(std::string("the program zstd cannot be started (") + std::strerror(error) +
                             "); install it: scripts/setup.sh, or apt-get install zstd");
    }
  }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  ~Zstd() {
    if (child_ > 0) {
      kill(child_, SIGTERM);
      waitpid(child_, nullptr, 0);
    }
    close_all();
  }

  void put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(pipe_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw RuntimeFailure("zstd stopped: " + ending());
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  std::size_t get(char* bytes, std::size_t size) {
    for (;;) {
      const ssize_t n = read(pipe_, bytes, size);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR)
        throw RuntimeFailure(std::string("reading from zstd failed: ") + std::strerror(errno));
    }
  }
  /// Waits; empty when all went well, else what it said.
  std::string ending() {
    if (pipe_ >= 0) close(pipe_);
    pipe_ = -1;
    if (child_ <= 0) return "it was not running";
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    std::string said(2000, '\0');
    const ssize_t n = pread(messages_, said.data(), said.size(), 0);
    said.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    while (!said.empty() && said.back() == '\n') said.pop_back();
    return said.empty() ? "it ended without a message" : said;
  }

 private:
  static int message_file() {
    const int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return file >= 0 ? file : open("/dev/null", O_RDWR | O_CLOEXEC);
  }
  void close_all() {
    if (pipe_ >= 0) close(pipe_);
    if (messages_ >= 0) close(messages_);
    pipe_ = messages_ = -1;
  }
  bool compress_;
  int pipe_ = -1, messages_ = -1;
  pid_t child_ = -1;
};

/// A reader that stops early must end this process's write with an error, not the process.
class NoBrokenPipe {
 public:
  NoBrokenPipe() { old_ = std::signal(SIGPIPE, SIG_IGN); }
  ~NoBrokenPipe() { std::signal(SIGPIPE, old_); }

 private:
  void (*old_)(int);
};

}  // namespace

void compress_to(const std::string& path, const std::function<void(const results::ByteSink&)>& fill) {
  const NoBrokenPipe guard;
  // One thread: with several the result depends on their number.
  Zstd zstd({"zstd", "-q", "-9", "--single-thread", "--check", "-c"}, path, true);
  fill([&](std::string_view bytes) { zstd.put(bytes); });
  if (const std::string said = zstd.ending(); !said.empty())
    throw RuntimeFailure(path + ": zstd failed: " + said);
}

void decompress(const std::string& path, const std::function<void(const results::ByteSource&)>& use) {
  if (!std::filesystem::is_regular_file(path)) throw EnvironmentError(path + ": no such file");
  Zstd zstd({"zstd", "-q", "-d", "-c"}, path, false);
  bool at_end = false;
  try {
    use([&](char* bytes, std::size_t size) {
      const std::size_t n = zstd.get(bytes, size);
      at_end = at_end || n == 0;
      return n;
    });
  } catch (const CorruptData&) {
    // Where the compressed file itself is damaged, that is the better message.
    if (at_end)
      if (const std::string said = zstd.ending(); !said.empty())
        results::complain_of_damage(path, said);
    throw;
  }
  if (const std::string said = zstd.ending(); !said.empty())
    results::complain_of_damage(path, said);
}

}  // namespace thinwire::sweep
