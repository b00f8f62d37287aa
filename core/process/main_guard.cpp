#include "core/process/main_guard.h"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "core/process/blas_kernels.h"
#include "core/process/instructions.h"
#include "core/process/log.h"

namespace thinwire {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;  // the sanitizer's own report of a signal says more
#else
constexpr bool sanitized = false;
#endif

struct Registered {
  int id;
  int priority;
  FailureHook hook;
};

struct Hooks {
  std::mutex mutex;
  std::vector<Registered> list;
  int next_id = 1;
};
// Leaked: a watchdog may fail the process while static objects are being destroyed.
Hooks& hooks() {
  static Hooks* instance = new Hooks;
  return *instance;
}

// A hook that fails (journal on a full disk) must not keep the later ones (MPI_Abort) from running.
void run_hooks(int exit_status, const std::string& message) {
  std::vector<Registered> todo;
  {
    const std::lock_guard lock(hooks().mutex);
    todo.swap(hooks().list);
  }
  std::stable_sort(todo.begin(), todo.end(), [](const auto& a, const auto& b) { return a.priority < b.priority; });
  for (const Registered& entry : todo) {
    try {
      entry.hook(exit_status, message);
    } catch (const std::exception& e) {
      log_error(std::string("while reporting the failure: ") + e.what());
    } catch (...) {
      log_error("while reporting the failure: an unknown exception");
    }
  }
}

// Reports once per process; a second failing thread waits for the first one's exit.
int report(int exit_status, const std::string& message) {
  static std::atomic<bool> failing = false;
  if (failing.exchange(true)) {
    for (;;) pause();
  }
  log_error(message);
  run_hooks(exit_status, message);
  failing = false;  // only reached when no hook ended the process: tests call guarded_main repeatedly
  return exit_status;
}

void put(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Async-signal-safe: only write, backtrace (its library is loaded beforehand) and raise.
void on_fatal_signal(int signal_number) {
  const char* name = signal_number == SIGSEGV ? "SIGSEGV (bad memory access)"
                     : signal_number == SIGBUS ? "SIGBUS (bad memory access, or a full tmpfs behind a mapped file)"
                     : signal_number == SIGFPE ? "SIGFPE (integer division by zero)"
                                               : "SIGABRT";
  put("thinwire: fatal signal ");
  put(name);
  put("; back-trace (resolve addresses with addr2line -Cfpie PROGRAM ADDRESS):\n");
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  raise(signal_number);  // SA_RESETHAND restored the default: die by the signal, so that mpirun sees it
}

void install_signal_handlers() {
  void* warm_up[1];
  backtrace(warm_up, 1);  // loads libgcc now: malloc is not allowed in a handler
  static char alternate_stack[64 * 1024];
  stack_t stack{};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK | SA_NODEFER;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) sigaction(s, &action, nullptr);
}

}  // namespace

int add_failure_hook(int priority, FailureHook hook) {
  const std::lock_guard lock(hooks().mutex);
  hooks().list.push_back({hooks().next_id, priority, std::move(hook)});
  return hooks().next_id++;
}

void remove_failure_hook(int id) {
  const std::lock_guard lock(hooks().mutex);
  std::erase_if(hooks().list, [id](const Registered& entry) { return entry.id == id; });
}

void fail_process(int exit_status, const std::string& message) {
  report(exit_status, message);
  std::fflush(nullptr);
  _exit(exit_status);  // other threads may be stuck: no destructors
}

int guarded_main(int argc, char** argv, const std::function<int(int, char**)>& body) {
  if (!sanitized) install_signal_handlers();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is then an error of that write, as a full disk is
  const auto runtime = static_cast<int>(ExitCode::runtime_failure);
  try {
    limit_instructions();
    if (argv != nullptr && argv[0] != nullptr) choose_blas_kernels(argv);
    return body(argc, argv);
  } catch (const Error& e) {
    return report(e.exit_status(), e.what());
  } catch (const std::bad_alloc&) {
    return report(runtime, "out of memory on the host: use a smaller shape, batch or number of ranks");
  } catch (const std::exception& e) {
    return report(runtime, std::string("unexpected error: ") + e.what());
  } catch (...) {
    return report(runtime, "unexpected error of an unknown type");
  }
}

}  // namespace thinwire
