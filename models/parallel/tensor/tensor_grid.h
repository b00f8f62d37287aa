// The process grid of 2-D, 2.5-D and 3-D tensor parallelism at run time: a line of ranks along each axis, the channels over them, and
// what was sent for which tensor. Everything that the layers of a grid exchange goes through here.
//
// Messages of a second pass over the same data (recomputation, re-gathering in the backward pass) are sent again, under the keys of
// training: nothing gathered is kept, and codecs must give the same bits again, so codecs with state are refused.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/compute_clock.h"
#include "models/layout/grid_sharding.h"
#include "models/compute/pass.h"
#include "models/layout/parameter.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

/// What a message of the grid carries, and so its traffic class: tp_forward, tp_backward, tp_weight, tp_weight_gradient; control in
/// the wire type (embedding look-ups) and exact (vectors, statistics of layernorm and loss: in the type of the model; `maximum`: its
/// reductions take the largest instead of the sum).
enum class GridUse { activation, gradient, weight, weight_gradient, look_up, exact, maximum };

/// One of the 3-D backward policies (docs/tensor-parallel.md): gathered tensors are gathered again; the same with the output's gradient
/// gathered twice, as the first released code did; or kept from the forward pass, at q times the memory.
enum class GatherPolicy { again, again_literally, keep };
std::string name_of(GatherPolicy policy);
GatherPolicy parse_gather_policy(const std::string& text);

struct GridOptions {
  DType comm_dtype = DType::f32;  ///< of dense transfers; in f64 runs f64
  Form form = Form::fair;
  std::map<TrafficClass, CompressRule> compress;
  GatherPolicy gather = GatherPolicy::again;
  WeightCut cut = WeightCut::rows;
  int stage = 0;  ///< of the pipeline, for rules that name stages
  std::optional<std::uint64_t> run_seed = {};  ///< ChannelOptions::run_seed
};

/// UsageError for codecs that a grid's traffic cannot take: state, wrappers or another gradient than that of the decoded tensor.
void check_grid_rules(const std::map<TrafficClass, CompressRule>& rules, Form form);

/// Buffers of tensors that live within one call, shared by all layers.
class GridScratch {
 public:
  template <typename T>
  class Lease {
   public:
    Lease() = default;
    Lease(GridScratch& pool, std::int64_t elements) : pool_(&pool), buffer_(pool.take(static_cast<std::size_t>(elements) * sizeof(T))) {}
    Lease(Lease&& other) noexcept : pool_(other.pool_), buffer_(std::move(other.buffer_)) {}
    Lease& operator=(Lease&& other) noexcept {
      if (this != &other) {
        release();
        pool_ = other.pool_;
        buffer_ = std::move(other.buffer_);
      }
      return *this;
    }
    ~Lease() { release(); }
    void release() {
      if (buffer_) pool_->give_back(std::move(buffer_));
    }
    T* data() const { return buffer_ ? reinterpret_cast<T*>(buffer_->data()) : nullptr; }

   private:
    GridScratch* pool_ = nullptr;
    std::unique_ptr<Buffer> buffer_;
  };
  template <typename T>
  Lease<T> borrow(std::int64_t elements) {
    return Lease<T>(*this, elements);
  }
  /// Frees what is not lent.
  void trim() { free_.clear(); }

 private:
  std::unique_ptr<Buffer> take(std::size_t bytes);
  void give_back(std::unique_ptr<Buffer> buffer) { free_.push_back(std::move(buffer)); }
  std::vector<std::unique_ptr<Buffer>> free_;
};

template <typename T>
class TensorGrid {
 public:
  /// Collective over `group`, whose size is shape.ranks(). UsageError for codecs that a grid cannot use.
  TensorGrid(Communicator& group, const GridShape& shape, const GridOptions& options, ComputeClock& clock);

  const GridShape& shape() const { return shape_; }
  const GridOptions& options() const { return options_; }
  int rank() const { return rank_; }
  int size(int axis) const { return shape_.sides[static_cast<std::size_t>(axis)]; }
  int index(int axis) const { return shape_.index(axis, rank_); }
  SplitGroup group(int axis) const { return shape_.group(axis, rank_); }
  ComputeClock& clock() { return clock_; }
  /// This rank's sequences of a micro-batch, and columns of an activation of `extent` columns, in the layout of the input of a linear
  /// of this orientation. UsageError where they do not divide.
  AxisRange samples(std::int64_t batch, bool swapped = false) const {
    return split_axis("micro-batch", batch, grid_activation(shape_, rank_, swapped).batch);
  }
  AxisRange columns(std::int64_t extent, bool swapped = false) const {
    return split_axis("columns of an activation", extent, grid_activation(shape_, rank_, swapped).hidden);
  }
  GridScratch& scratch() { return scratch_; }

  /// Name of a message: its tensor, what it does there ("all_gather input": the label under which it is counted), layer and pass.
  struct Message {
    GridUse use;
    int axis;
    const char* label;
    std::string tensor;
    int layer;
    const PassContext& pass;
  };
  struct Pending {
    Operation operation;
    const char* label = nullptr;
    TrafficClass traffic = TrafficClass::control;
  };
  // Matrices [rows, columns] over the line of an axis with more than one rank; memory stays valid until wait(). Rows divide evenly.
  /// whole [rows, columns] from everybody's rows / size.
  Pending all_gather(const Message& message, std::int64_t rows, std::int64_t columns, const T* shard, T* whole);
  /// shard = my rows / size of the sum of `partial` [rows, columns].
  Pending reduce_scatter(const Message& message, std::int64_t rows, std::int64_t columns, const T* partial, T* shard);
  Pending broadcast(const Message& message, std::int64_t rows, std::int64_t columns, T* data, int root);
  /// Only the root's `out` is written; null elsewhere. Not in place.
  Pending reduce(const Message& message, std::int64_t rows, std::int64_t columns, const T* in, T* out, int root);
  Pending all_reduce(const Message& message, std::int64_t rows, std::int64_t columns, T* data);
  void wait(Pending&& pending);

  /// The weights have changed; `step`, equal on all ranks, seeds codecs that draw random numbers. Until the next call every weight is
  /// encoded once: gathering it again, for another micro-batch, a recomputation or the backward pass, sends the same bytes.
  void weights_changed(std::int64_t step);

  /// What the messages of one label cost this rank since the last reset.
  struct Count {
    TrafficClass traffic = TrafficClass::control;
    std::int64_t operations = 0;
    OperationReport sum;
  };
  const std::map<std::string, Count>& counts() const { return counts_; }
  void reset_counts() { counts_.clear(); }

  /// Microseconds blocked in wait() since the last reset, codec work excluded.
  double waited_us = 0;

  /// What the codecs of this rank remember, added under names of their own; and back. CorruptData where one is missing.
  void save_states(std::map<std::string, std::vector<std::byte>>& to) const;
  void load_states(const std::map<std::string, std::vector<std::byte>>& from);

  // As of the pairs of a trainer.
  void set_compute(ComputeMode mode, double scale);
  void drain_link(LinkDrain* drain);
  void progress();
  void take_records(std::vector<TrafficRecord>& records);

 private:
  struct Line {
    std::unique_ptr<Communicator> communicator;
    std::vector<std::unique_ptr<ChannelPair>> pairs;  ///< by GridUse
  };
  Channel& channel(const Message& message, const MessageKey& key);
  std::string state_name(int axis, const Channel& coded) const;
  Pending pending(const Message& message, Operation operation) const;
  MessageKey key_of(const Message& message) const;
  GridShape shape_;
  GridOptions options_;
  int rank_;
  ComputeClock& clock_;
  std::array<Line, 3> lines_;
  GridScratch scratch_;
  std::map<std::string, Count> counts_;
  std::int64_t weights_step_ = 0;
};

}  // namespace thinwire
