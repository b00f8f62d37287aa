// Passes through a part of the model as graphs of a device, for models whose kernels are shorter than their launches.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "core/device_graph.h"
#include "models/compute_clock.h"

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

  /// Runs `body` as it is the first time; the second time its work is recorded and launched, and later times launched. With an equal key it must
  /// queue the same work on the same addresses; after its first run it must neither wait nor allocate.
  template <typename Body>
  void run(const Key& key, int micro, Body&& body) {
    if (!on_) return body();
    drop_outdated();
    auto& [seen, graph] = passes_[key];
    if (!seen) {
      seen = true;
      body();
      drop_outdated();  // buffers may have grown
      return;
    }
    if (!graph) {
      const ComputeClock::Pause unseen(clock_);
      graph.emplace(body);
    }
    clock_.run(key.name, -1, micro, [&] { graph->launch(); });
  }

 private:
  struct Pass {
    bool seen = false;
    std::optional<DeviceGraph> graph;
  };
  /// Recorded work whose scratch memory has moved.
  void drop_outdated();
  bool on_;
  ComputeClock& clock_;
  std::uint64_t generation_ = 0;
  std::map<Key, Pass> passes_;
};

}  // namespace thinwire
