// Passes through a part of the model as graphs of a device, for models whose kernels are shorter than their launches. A graph that no longer fits
// computes nonsense without a word, so what it holds must not change between its launches:
// * Numbers: those of the model and the configuration. Passes with others (dropout's stream, messages, what the host reads) are not recorded.
// * Addresses: those of the key, or of tensors that live as long as the model and are never exchanged. What lies behind an address then changes only
//   by being released, when a tensor or a workspace grows or goes: any release of the process makes every pass start anew.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/device/device_graph.h"
#include "core/error.h"
#include "models/compute/compute_clock.h"

namespace thinwire {

class RecordedPasses {
 public:
  /// What makes two calls queue the same work: what it is, of which chunk, on which activations and which gradient.
  struct Key {
    const char* name;  ///< a literal; of the section that the clock sees instead of the body's own
    int chunk = 0;
    const void *activations = nullptr, *gradient = nullptr;
    auto operator<=>(const Key&) const = default;
  };

  /// Off: run() just runs the body.
  RecordedPasses(bool on, ComputeClock& clock) : on_(on), clock_(clock) {}

  /// Runs `body` as it is the first time since memory was last released (device_releases()); after that all memory it needs is there. The next time
  /// its work is recorded and launched, and later times launched. With an equal key it must queue the same work on the same addresses.
  /// RuntimeFailure where it waits or allocates then.
  template <typename Body>
  void run(const Key& key, int micro, Body&& body) {
    if (!on_) return body();
    Pass& pass = passes_[key];
    const std::uint64_t releases = device_releases();
    if (!pass.seen || pass.releases != releases) {
      drop(pass);
      body();
      pass = {true, releases, {}};  // of before the run: what it released has moved
      return;
    }
    if (!pass.graph) {
      try {
        const ComputeClock::Pause unseen(clock_);
        pass.graph.emplace(body);
      } catch (const RuntimeFailure& e) {
        throw RuntimeFailure(std::string(e.what()) + " (while '" + key.name + "' was recorded as a graph; --graphs false does without)");
      }
      TW_ASSERT(device_releases() == releases, "memory was released while a pass was recorded");
    }
    clock_.run(key.name, -1, micro, [&] { pass.graph->launch(); });
    ++launches_;
  }

  /// So far.
  std::int64_t launches() const { return launches_; }

 private:
  struct Pass {
    bool seen = false;
    std::uint64_t releases = 0;  ///< when it was seen
    std::optional<DeviceGraph> graph;
  };
  void drop(Pass& pass);
  bool on_;
  ComputeClock& clock_;
  std::int64_t launches_ = 0;
  std::map<Key, Pass> passes_;
};

}  // namespace thinwire
