// What 1-D tensor parallelism (Megatron-LM, Shoeybi et al. 2019) sends between its linears, as the layers see it: sums of partial
// products forward and backward, and with sequence parallelism (Korthikanti et al. 2022) reduce-scatters and all-gathers over the
// tokens instead. With one rank every call does nothing.
//
// Tokens are the rows [batch x seq] of a micro-batch. Sequence parallelism splits them into contiguous row blocks (shard_rows), so
// the cut may fall between sequences as well as inside one; layernorm, dropout and residual act on single tokens and cannot tell.
#pragma once

#include "core/tensor_names.h"
#include "models/compute/compute_clock.h"
#include "models/compute/pass.h"
#include "models/layout/parameter.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

template <typename T>
class TensorParallel {
 public:
  /// One rank.
  TensorParallel() = default;
  /// `forward` and `backward` carry tp_forward and tp_backward; both dense: `look_up` embeddings in the wire type, `control` the
  /// statistics of the loss in the type of the model.
  TensorParallel(ChannelPair& forward, ChannelPair& backward, Channel& look_up, Channel& control, int stage, bool sequence_parallel);

  int size() const { return size_; }
  int rank() const { return rank_; }
  bool splits() const { return size_ > 1; }
  bool sequence_parallel() const { return sequence_parallel_; }
  /// As a group of a ParameterLayout.
  SplitGroup group() const { return {"tensor", size_, rank_}; }
  /// The tokens that lie on this rank between the linears.
  RowBlock own_rows(std::int64_t rows) const;

  /// Row-parallel forward: own rows of the sum of `partial` [rows, columns] over the group. Without sequence parallelism `own`
  /// may be `partial`.
  void sum_output(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns, T* partial, T* own);
  /// Its backward pass: from the gradient of the own rows that of this rank's partial product, [rows, columns]. Returns `own`
  /// itself where they are the same, else `partial`, which is overwritten.
  const T* sum_output_backward(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns,
                               const T* own, T* partial, ComputeClock& clock);
  /// Input of a column-parallel linear: all rows from everybody's own rows. Without sequence parallelism they are here already:
  /// then `own` must be `all`.
  void gather_input(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns, const T* own, T* all);
  /// Its backward pass, in two halves so that work can go on in between: start begins to sum `partial` [rows, columns] over the
  /// group; after finish `own` has the own rows of the sum. Without sequence parallelism `own` may be `partial`.
  Operation start_sum_input_gradient(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns,
                                     T* partial, T* own);
  void finish_sum_input_gradient(Operation operation, const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows,
                                 std::int64_t columns, const T* own);

  /// Control traffic, dense: as sum_output and gather_input.
  void sum_look_up(const PassContext& pass, std::int64_t rows, std::int64_t columns, T* partial, T* own);
  void gather_look_up_gradient(const PassContext& pass, std::int64_t rows, std::int64_t columns, const T* own, T* all);
  /// all [size x rows, columns] = `mine` [rows, columns] of every rank, in rank order.
  void gather_statistics(const PassContext& pass, std::int64_t rows, std::int64_t columns, const T* mine, T* all);

  /// Every how many steps coded sums are compared with dense ones; 0: never.
  std::int64_t error_interval = 0;
  /// Microseconds blocked in the calls above since the last reset, codec work excluded.
  double waited_us = 0;

 private:
  void wait(Operation operation);
  bool compares(const PassContext& pass) const;
  ChannelPair *forward_ = nullptr, *backward_ = nullptr;
  Channel *look_up_ = nullptr, *control_ = nullptr;
  int size_ = 1, rank_ = 0, stage_ = 0;
  bool sequence_parallel_ = false;
  Tensor kept_input_;
};

}  // namespace thinwire
