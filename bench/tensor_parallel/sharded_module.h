// What bench_tensor_parallel measures: a linear, an MLP or a Transformer block split over ranks in 1, 2, 2.5 or 3 dimensions, each behind one
// face. Shards in, shards out.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/parallel/tensor/tensor_grid.h"

namespace thinwire::bench {

/// Sizes over all ranks. The linear is hidden -> 4 hidden; MLP and layer keep the hidden size.
struct SplitSizes {
  std::string unit;  ///< linear, mlp, layer
  std::int64_t batch = 0, seq = 0, hidden = 0, heads = 0;
  std::uint64_t seed = 0;
  DType comm_dtype = DType::f32;
  GatherPolicy gather = GatherPolicy::again;
  std::map<TrafficClass, CompressRule> compress;  ///< of the four classes of tensor parallelism
  std::int64_t rows() const { return batch * seq; }
  std::int64_t out() const { return unit == "linear" ? 4 * hidden : hidden; }
  PassContext pass() const { return {batch, seq}; }
  GridSizes to_split() const { return {batch, hidden, unit == "layer" ? heads : 0}; }
};

/// Why a grid cannot split these sizes or carry these codecs; empty where it can.
std::string why_not(const GridShape& shape, const SplitSizes& sizes);

template <typename T>
class ShardedModule {
 public:
  virtual ~ShardedModule() = default;
  virtual void forward(const T* x, T* y) = 0;
  /// Adds to the gradients of the parameters. The same memory may not serve dy and dx.
  virtual void backward(const T* x, const T* dy, T* dx) = 0;
  virtual ParameterList<T> parameters() = 0;
  /// As after a step of an optimizer: weights are encoded anew.
  virtual void weights_changed() = 0;
  virtual void set_compute(ComputeMode mode) = 0;
  virtual void drain_link(LinkDrain* drain) = 0;
  /// What was sent since the last call, by collective.
  virtual std::map<std::string, typename TensorGrid<T>::Count> take_counts() = 0;
  Layout input, output;
};

/// Collective over `world`, whose size is shape.ranks(). UsageError as why_not.
std::unique_ptr<ShardedModule<float>> make_split_unit(Communicator& world, const GridShape& shape, const SplitSizes& sizes);
/// The same on one rank in float64, with weights that are those of the split unit, float for float. The reference.
std::unique_ptr<ShardedModule<double>> make_serial_unit(const SplitSizes& sizes);

/// The part of a random [rows, columns] f32 tensor that `layout` gives a rank; Normal(0, 1) by `name` and place.
Tensor random_shard(const SplitSizes& sizes, const char* name, std::int64_t columns, const Layout& layout);

}  // namespace thinwire::bench
