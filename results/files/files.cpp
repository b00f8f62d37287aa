#include "results/files/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/process/environment.h"

namespace thinwire::results {

namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  const int error = errno;
  const std::string text = path + ": cannot " + doing + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    throw RuntimeFailure(
        text + "; the disk is full: free some space or choose another folder. Finished results are intact");
  if (error == EACCES || error == EROFS || error == EPERM || error == ENOENT || error == ENOTDIR)
    throw EnvironmentError(text + "; choose a folder that you may write to");
  throw RuntimeFailure(text);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path)) return;
  if (error == std::errc::no_space_on_device)
    throw RuntimeFailure(
        path + ": cannot make this folder: the disk is full; free some space or choose another folder");
  throw EnvironmentError(
      path + ": cannot make this folder: " + (error ? error.message() : "something else has this name") +
      "; choose a folder that you may write to");
}

std::string read_file(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat info {};
  std::string bytes;
  bool whole = file.get() >= 0 && fstat(file.get(), &info) == 0;
  // The size is a hint only: files of /proc have none, and a journal may grow meanwhile.
  std::size_t used = 0;
  for (bool more = whole; more;) {
    if (used == bytes.size()) bytes.resize(std::max<std::size_t>(used + 4096, static_cast<std::size_t>(info.st_size) + 1));
    const ssize_t n = read(file.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    whole = n >= 0;
    more = n > 0;
    if (more) used += static_cast<std::size_t>(n);
  }
  if (!whole)
    throw EnvironmentError(path +
                           ": cannot be read; check that it exists and that you have the right to read it");
  bytes.resize(used);
  return bytes;
}

void publish_file(const std::string& path) {
  const std::string temporary = path + ".tmp";
  const bool flushes = Environment::get("THINWIRE_FSYNC").value_or("1") != "0";
  if (flushes) {
    const Descriptor file(temporary, O_RDONLY);
    if (file.get() < 0 || fsync(file.get()) != 0) fail(temporary, "flush to disk");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "rename the finished file to");
  if (!flushes) return;
  const Descriptor folder(std::filesystem::absolute(path).parent_path().string(), O_RDONLY | O_DIRECTORY);
  if (folder.get() >= 0) fsync(folder.get());  // some file systems refuse to; the rename stands
}

void write_file(const std::string& path, std::string_view bytes) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() < 0) fail(path, "write");
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  try {
    write_file(path + ".tmp", bytes);
    publish_file(path);
  } catch (...) {
    unlink((path + ".tmp").c_str());
    throw;
  }
}

}  // namespace thinwire::results
