// What a capture holds: which tensors at which shapes and points of training, cut to a size cap before a
// single step is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/capture/capture_writer.h"

namespace thinwire {

/// A forward shape: sequences per micro-batch x tokens per sequence.
struct CaptureShape {
  std::int64_t batch = 8, seq = 128;
  bool operator==(const CaptureShape&) const = default;
};
/// "8x128,32x512" -> shapes. UsageError naming the faulty entry.
std::vector<CaptureShape> parse_capture_shapes(const std::string& text);

struct CapturePlanOptions {
  std::int64_t hidden = 512, layers = 4, vocab = 256;
  /// The first shape is the base: captured early and late over many steps; the others late over few.
  std::vector<CaptureShape> shapes = {{8, 128}, {32, 128}, {8, 512}, {32, 512}};
  int base_steps = 8, other_steps = 2;
  std::vector<int> tensor_ranks = {2, 4};
  int replicas = 8;  ///< micro-batches per step at the base shape: each is one data-parallel replica
  int pipeline_micro = 2;  ///< micro-batches of the base shape whose boundary tensors are kept; of `replicas` at most
  int other_micro = 2;     ///< micro-batches per step at the other shapes; all of them are kept
  double loss_scale = 8192;
  std::int64_t max_mib = 2304;
};

struct PlannedSlot {
  CaptureSlot slot;
  int steps = 0;
  int priority = 0;  ///< 0 = needed; higher numbers are left out first when the cap is small
  std::int64_t bytes() const { return steps * slot.bytes_per_step(); }
};

struct CapturePlan {
  std::vector<PlannedSlot> kept, left_out;
  std::int64_t bytes() const;
};

/// UsageError saying what is needed when even the tensors of priority 0 exceed the cap.
CapturePlan plan_capture(const CapturePlanOptions& options);

}  // namespace thinwire
