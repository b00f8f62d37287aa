// The uncompressed baseline of a measurement: the faster of the library's collective and our own ring.
#pragma once

#include <functional>
#include <string>

#include "bench/harness/measure.h"

namespace thinwire::bench {

/// Dense laps of one layout, shape and link, interleaved with the cells that they serve.
struct Baseline {
  Laps library, ring;
  /// Whether the next round needs this algorithm. On a slow link the library's collective goes on after the first round
  /// only where it was clearly faster: in a near tie its laps are lost link time, and they scatter more than the ring's.
  bool wants(DenseAlgorithm candidate, bool slow_link) const {
    if (!slow_link || candidate == DenseAlgorithm::ring || library.empty() || ring.empty()) return true;
    return median_total_us(library) < 0.95 * median_total_us(ring);
  }
  /// An algorithm that was dropped has lost, whatever its first lap says.
  bool ring_is_faster() const {
    if (ring.size() != library.size()) return ring.size() > library.size();
    return !ring.empty() && median_total_us(ring) < median_total_us(library);
  }
  const Laps& faster() const { return ring_is_faster() ? ring : library; }
  std::string name() const { return ring_is_faster() ? "ring" : "library"; }
  DenseAlgorithm algorithm() const { return ring_is_faster() ? DenseAlgorithm::ring : DenseAlgorithm::library; }
};

/// A link below 1 Gbit/s: a lap is long, and first contact costs nothing beside it, so nothing needs a warm-up.
bool is_slow(const std::string& link);

/// A tensor in the wire type.
Tensor to_wire(const Tensor& x, DType wire);
/// Its values in f32: those of `x` itself where it is f32, else widened into `scratch`.
std::span<const float> from_wire(const Tensor& x, Tensor& scratch);

/// Spreads `rounds` baseline rounds evenly over a group of `cells` cells: call before each cell and once at the end.
class BaselineSchedule {
 public:
  BaselineSchedule(int rounds, std::size_t cells, std::function<void()> round) : rounds_(rounds), cells_(cells), round_(std::move(round)) {}
  void before_cell(std::size_t index) {
    for (; static_cast<std::size_t>(done_) * cells_ <= index * static_cast<std::size_t>(rounds_) && done_ < rounds_; ++done_) round_();
  }
  void finish() {
    for (; done_ < rounds_; ++done_) round_();
  }

 private:
  int rounds_, done_ = 0;
  std::size_t cells_;
  std::function<void()> round_;
};

}  // namespace thinwire::bench
