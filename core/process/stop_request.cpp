#include "core/process/stop_request.h"

#include <csignal>

namespace thinwire {

namespace {
volatile std::sig_atomic_t requested = 0;
}

void watch_for_stop_request() {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  action.sa_flags = SA_RESTART;  // the libraries below know nothing of it
  sigaction(SIGUSR1, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

void clear_stop_request() { requested = 0; }

}  // namespace thinwire
