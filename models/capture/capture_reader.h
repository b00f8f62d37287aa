// Reads a capture: the traffic that training a real GPT would put on the wire (written by capture_traffic;
// docs/results-schema.md, section "Capture file").
//
// A capture holds tensors by traffic class. Each has several consecutive training steps and several parts:
//   tp_forward   part r of t  = what tensor-parallel rank r adds to a row-parallel linear's output: the parts
//   of
//                               a step sum to the output. Shape [batch, seq, hidden].
//   pp_forward   part m       = the activation of micro-batch m at a stage boundary, [batch, seq, hidden].
//   pp_backward  part m       = the gradient that travels back over that boundary, [batch, seq, hidden].
//   dp_gradient  part m       = the weight gradient of micro-batch m (= replica m of a data-parallel group),
//   [in, out]. embedding    part m       = gradient of the token table in replica m, [vocab, hidden]; tensor
//   "token.first_use"
//                               (input look-up) or "token.last_use" (tied head).
//   param_all_gather part 0   = a weight matrix as the step begins, which owners of rows gather, [in, out]; middle layer, late point.
// Values are stored in f16, gradients multiplied by `loss_scale` as mixed-precision training sends them.
// Every (step, part) comes from its own forward and backward pass at its own shape; nothing is tiled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

inline constexpr int capture_schema_version = 1;

/// Facts about the run that was captured.
struct CaptureInfo {
  std::string path;
  int schema_version = 0;
  std::string corpus;  ///< SHA-256 of the text
  std::uint64_t seed = 0;
  std::int64_t hidden = 0, layers = 0, heads = 0, vocab = 0;
  double loss_scale = 1;                           ///< factor on every gradient; 1 on activations
  double unigram_entropy = 0, bigram_entropy = 0;  ///< nats per byte of the training text
  double loss_early = 0, loss_late = 0;  ///< training loss (nats) at the first captured step of each point
};

/// One dataset of the capture.
struct CaptureTensor {
  std::string traffic;              ///< traffic class
  std::string tensor;               ///< e.g. "layer3.mlp.projection", "boundary2", "token.first_use"
  std::string point;                ///< "early" or "late"
  std::int64_t batch = 0, seq = 0;  ///< of the forward pass it comes from (sequences per micro-batch)
  int parts = 0;                    ///< ranks t of a tensor group, or micro-batches
  Shape shape;                      ///< of one part
  std::vector<std::int64_t> steps;  ///< training step numbers, consecutive
  std::vector<double> losses;       ///< training loss at each of them (nats)
};

/// What to look for. Empty text or 0 = any, but exactly one dataset must match in find().
struct CaptureQuery {
  std::string traffic = {}, tensor = {}, point = {};
  std::int64_t batch = 0, seq = 0;
  int parts = 0;           ///< exactly this many
  int at_least_parts = 0;  ///< or at least this many
};

class CaptureReader {
 public:
  /// Throws EnvironmentError when the file cannot be read, CorruptData when it is truncated, no capture, or
  /// of another schema version; the message names the file and how to make a new one.
  explicit CaptureReader(const std::string& path);
  CaptureReader(CaptureReader&&) noexcept;
  CaptureReader& operator=(CaptureReader&&) noexcept;
  ~CaptureReader();

  const CaptureInfo& info() const { return info_; }
  /// Everything stored, ordered by class, tensor, point, batch, seq, parts.
  const std::vector<CaptureTensor>& tensors() const { return tensors_; }
  std::vector<CaptureTensor> matching(const CaptureQuery& query) const;
  /// The one dataset that matches. UsageError listing what exists when none or several do.
  const CaptureTensor& find(const CaptureQuery& query) const;

  /// Part `part` at the step_index-th captured step, widened to f32: `to` has shape.elements() elements.
  /// UsageError for an index out of range; CorruptData when the data cannot be read.
  void load(const CaptureTensor& tensor, int step_index, int part, std::span<float> to) const;
  Tensor load(const CaptureTensor& tensor, int step_index, int part) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
  CaptureInfo info_;
  std::vector<CaptureTensor> tensors_;
};

}  // namespace thinwire
