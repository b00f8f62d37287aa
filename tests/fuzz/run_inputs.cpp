#include "tests/fuzz/run_inputs.h"

#include <omp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "core/error.h"

namespace thinwire::fuzz {
namespace {

/// What both processes see.
struct Shared {
  std::uint64_t next = 0;  ///< input that is being read; those before it are done
  bool at_end = false;     ///< there is no further one
  std::uint64_t read = 0, refused = 0;
  std::size_t size = 0;
  char what[2048] = {};
  char input[1 << 18] = {};
};

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit limit{4ull << 30, 4ull << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

/// Returns when all are read, or after one that threw, which `what` tells.
void child(const Target& target, const Inputs& inputs, Shared& shared) {
  limit_memory();
  omp_set_num_threads(1);  // the threads that the parent's OpenMP made are not in this process: a loop of several would wait for them
  for (;; ++shared.next) {
    const std::optional<std::string> input = inputs(shared.next);
    if (!input) {
      shared.at_end = true;
      return;
    }
    shared.size = std::min(input->size(), sizeof shared.input);
    std::memcpy(shared.input, input->data(), shared.size);
    try {
      ++(read_input(target, *input) == Ending::read ? shared.read : shared.refused);
    } catch (const Finding& finding) {
      std::snprintf(shared.what, sizeof shared.what, "%s", finding.what());
      return;
    }
  }
}

std::string kept(const std::string& folder, const Target& target, const Shared& shared) {
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/" + target.name + "-" + std::to_string(shared.next);
  std::ofstream(path, std::ios::binary).write(shared.input, static_cast<std::streamsize>(shared.size));
  return path;
}

}  // namespace

Report run_inputs(const Target& target, const Inputs& inputs, const std::string& keep, std::size_t most_findings) {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw EnvironmentError("no memory that two processes share");
  Shared& shared = *new (memory) Shared;
  folder_of_files();  // here: a child that makes it ends without destructors and would leave it behind
  Report report;
  for (; report.findings.size() < most_findings; ++shared.next) {
    shared.what[0] = '\0';
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process < 0) throw EnvironmentError("cannot start a process");
    if (process == 0) {
      child(target, inputs, shared);
      std::fflush(nullptr);
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    if (shared.at_end && status == 0) break;
    std::string what = shared.what;
    if (what.empty()) what = WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) : "ended with status " + std::to_string(WEXITSTATUS(status));
    report.findings.push_back(target.name + ": " + what + "; the input is " + kept(keep, target, shared));
  }
  report.read = shared.read, report.refused = shared.refused;
  munmap(memory, sizeof(Shared));
  return report;
}

}  // namespace thinwire::fuzz
