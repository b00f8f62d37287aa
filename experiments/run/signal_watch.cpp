#include "experiments/run/signal_watch.h"

namespace thinwire::sweep {

namespace {
volatile std::sig_atomic_t noted = 0;
}

SignalWatch::SignalWatch() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = [](int signal) { noted = signal; };
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, &old_[signal]);
}

SignalWatch::~SignalWatch() {
  for (const auto& [signal, action] : old_) sigaction(signal, &action, nullptr);
}

int SignalWatch::pending() { return noted; }

}  // namespace thinwire::sweep
