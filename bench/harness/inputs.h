// Where the tensors of a bench come from: captured traffic, a generator, or the user's own files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"
#include "core/device/tensor.h"
#include "models/capture/capture_reader.h"
#include "models/data/generated/generators.h"

namespace thinwire::bench {

/// One tensor over steps and parts (ranks of a tensor group, replicas, micro-batches).
class Series {
 public:
  virtual ~Series() = default;
  /// f32 tensor of this step and part; every (step, part) is different data.
  virtual Tensor load(int step, int part) const = 0;
  std::string tensor;   ///< name for the record
  std::string traffic;  ///< class of a captured tensor, else empty
  std::string source;  ///< "captured", "generated" or "input"
  std::string corpus;  ///< hash of the text behind captured data
  Shape shape;
  int steps = 0;       ///< how many consecutive steps there are
};

/// The source named by a cell's parameters: `capture` (file), else `input` (comma-separated files, one per
/// part), else `generator`. Opened once per launch and cached.
class TrafficSource {
 public:
  explicit TrafficSource(const CellParameters& parameters);
  /// The captured tensor that matches `query` with at least `parts` parts; generated data takes `shape` (of one
  /// part). UsageError listing what the capture holds when nothing matches.
  std::unique_ptr<Series> find(CaptureQuery query, int parts, const Shape& shape) const;
  /// Names of captured tensors of a class at this shape, in stored order; made-up names otherwise.
  std::vector<std::string> names(const CaptureQuery& query) const;

 private:
  std::shared_ptr<const CaptureReader> capture_;
  std::vector<std::string> inputs_;
  std::string generator_;
  std::uint64_t seed_ = 0;
};

/// The options that every bench with inputs has: capture, input, generator.
std::vector<BenchOption> input_options();

}  // namespace thinwire::bench
