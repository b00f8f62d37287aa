// Writes the captured traffic into an open HDF5 file, tensor by tensor, and its index at the end.
// Layout: docs/results-schema.md, section "Capture file".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "models/capture/capture_reader.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {

/// One dataset to be captured: its place, and how many parts each of its steps has.
struct CaptureSlot {
  std::string traffic, tensor, point;
  std::int64_t batch = 0, seq = 0;
  std::string part_kind;  ///< "rank" (of a tensor group) or "micro" (micro-batch = replica)
  int parts = 0;
  Shape shape;       ///< of one part
  double scale = 1;  ///< stored value = value * scale
  std::int64_t bytes_per_step() const { return 2 * parts * shape.elements(); }
};

/// Path of one part inside the file.
std::string capture_path(const CaptureSlot& slot, std::int64_t step, int part);

class CaptureWriter {
 public:
  explicit CaptureWriter(h5::File& file) : file_(file) {}

  /// Declares a dataset. Returns its number.
  std::size_t declare(const CaptureSlot& slot);
  /// Stores one part of one step as f16. RuntimeFailure naming tensor, step and part when a value is not
  /// finite or exceeds f16 after scaling: a capture never holds anything that is not a number.
  void write(std::size_t slot, std::int64_t step, int part, const float* values);
  /// Training loss of a captured step.
  void step_done(const std::string& point, std::int64_t batch, std::int64_t seq, std::int64_t step,
                 double loss);
  /// Writes the index and the attributes.
  void finish(const CaptureInfo& info);
  std::int64_t bytes_written() const { return bytes_; }
  const std::vector<CaptureSlot>& slots() const { return slots_; }

 private:
  struct Count {
    std::vector<std::int64_t> steps;
    std::int64_t flushed_to_zero = 0, values = 0;
  };
  h5::File& file_;
  std::vector<CaptureSlot> slots_;
  std::vector<Count> counts_;
  struct Step {
    std::string point;
    std::int64_t batch, seq, step;
    double loss;
  };
  std::vector<Step> steps_;
  std::vector<float> scaled_;
  std::vector<Half> halves_;
  std::int64_t bytes_ = 0;
};

}  // namespace thinwire
