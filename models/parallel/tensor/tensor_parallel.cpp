#include "models/parallel/tensor/tensor_parallel.h"

#include "collectives/process/rank_clock.h"

namespace thinwire {

template <typename T>
TensorParallel<T>::TensorParallel(ChannelPair& forward, ChannelPair& backward, Channel& look_up, Channel& control, int stage,
                                  bool sequence_parallel)
    : forward_(&forward),
      backward_(&backward),
      look_up_(&look_up),
      control_(&control),
      size_(control.communicator().size()),
      rank_(control.communicator().rank()),
      stage_(stage),
      sequence_parallel_(sequence_parallel && size_ > 1) {
  // The mask or code of a message is kept for the whole tensor; a reduce-scatter encodes it block by block.
  if (sequence_parallel_ && forward.coded() && forward.coded()->codec().codec->traits().backward != BackwardRule::straight_through)
    throw UsageError("sequence parallelism cannot go with tp_forward = \"" + forward.coded()->codec().expression.canonical() +
                     "\", whose gradient is not that of the decoded tensor; choose a codec with a straight-through gradient "
                     "(quantize, cast), or switch sequence parallelism off");
}

template <typename T>
RowBlock TensorParallel<T>::own_rows(std::int64_t rows) const {
  return sequence_parallel_ ? shard_rows(rows, rank_, size_) : RowBlock{0, rows};
}

template <typename T>
void TensorParallel<T>::wait(Operation operation) {
  const std::int64_t begin = RankClock::now_ns();
  const OperationReport& report = operation.wait();
  const std::int64_t end = RankClock::now_ns();
  waited_us += std::max(0.0, static_cast<double>(end - begin) * 1e-3 - report.encode_us - report.decode_us);
  Trace::add(TraceCategory::wait, "tensor parallel", begin, end);
}

template <typename T>
bool TensorParallel<T>::compares(const PassContext& pass) const {
  return error_interval > 0 && pass.why == Pass::train && static_cast<std::int64_t>(pass.step) % error_interval == 0;
}

template <typename T>
void TensorParallel<T>::sum_output(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns,
                                   T* partial, T* own) {
  if (!splits()) return;
  const MessageKey key = message_key(tensor, pass);
  Channel& channel = forward_->at(layer, stage_, key);
  const TensorView in = placed(partial, {rows, columns});
  if (sequence_parallel_) {
    wait(channel.reduce_scatter(in, placed(own, {own_rows(rows).count, columns}), key));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (compares(pass) && forward_->codes(layer, stage_, key)) {
      kept_input_.reshape({rows, columns});
      copy_bytes(kept_input_.view().data(), partial, kept_input_.bytes());
      wait(channel.all_reduce(in, placed(own, {rows, columns}), key));
      return forward_->compare_reduction(kept_input_.view(), placed(own, {rows, columns}), key);
    }
  }
  wait(channel.all_reduce(in, placed(own, {rows, columns}), key));
}

template <typename T>
const T* TensorParallel<T>::sum_output_backward(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows,
                                                std::int64_t columns, const T* own, T* partial, ComputeClock& clock) {
  if (!splits()) return own;
  const MessageKey key = message_key(tensor, pass);
  if (sequence_parallel_) {
    Channel& channel = backward_->at(layer, stage_, key);
    wait(channel.all_gather(placed(own, {own_rows(rows).count, columns}), placed(partial, {rows, columns}), key));
    return partial;
  }
  Channel& channel = forward_->at(layer, stage_, key);
  if (channel.codec().codec->traits().backward == BackwardRule::straight_through) return own;
  clock.run("codec backward", layer, pass.micro, [&] {
    channel.reduction_backward(placed(own, {rows, columns}), placed(partial, {rows, columns}), key);
  });
  return partial;
}

template <typename T>
void TensorParallel<T>::gather_input(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows, std::int64_t columns,
                                     const T* own, T* all) {
  if (!sequence_parallel_) return;
  const MessageKey key = message_key(tensor, pass);
  wait(forward_->at(layer, stage_, key)
           .all_gather(placed(own, {own_rows(rows).count, columns}), placed(all, {rows, columns}), key));
}

template <typename T>
Operation TensorParallel<T>::start_sum_input_gradient(const PassContext& pass, std::string_view tensor, int layer, std::int64_t rows,
                                                      std::int64_t columns, T* partial, T* own) {
  if (!splits()) return {};
  const MessageKey key = message_key(tensor, pass);
  Channel& channel = backward_->at(layer, stage_, key);
  const TensorView in = placed(partial, {rows, columns});
  if (sequence_parallel_) return channel.reduce_scatter(in, placed(own, {own_rows(rows).count, columns}), key);
  if constexpr (std::is_same_v<T, float>) {
    if (compares(pass) && backward_->codes(layer, stage_, key)) {
      kept_input_.reshape({rows, columns});
      copy_bytes(kept_input_.view().data(), partial, kept_input_.bytes());
    }
  }
  return channel.all_reduce(in, placed(own, {rows, columns}), key);
}

template <typename T>
void TensorParallel<T>::finish_sum_input_gradient(Operation operation, const PassContext& pass, std::string_view tensor, int layer,
                                                  std::int64_t rows, std::int64_t columns, const T* own) {
  if (!splits()) return;
  wait(std::move(operation));
  if constexpr (std::is_same_v<T, float>) {
    const MessageKey key = message_key(tensor, pass);
    if (!sequence_parallel_ && compares(pass) && backward_->codes(layer, stage_, key))
      backward_->compare_reduction(kept_input_.view(), placed(own, {rows, columns}), key);
  }
}

template <typename T>
void TensorParallel<T>::sum_look_up(const PassContext& pass, std::int64_t rows, std::int64_t columns, T* partial, T* own) {
  if (!splits()) return;
  const MessageKey key = message_key("embedding.look_up", pass);
  const TensorView in = placed(partial, {rows, columns});
  wait(sequence_parallel_ ? look_up_->reduce_scatter(in, placed(own, {own_rows(rows).count, columns}), key)
                          : look_up_->all_reduce(in, placed(own, {rows, columns}), key));
}

template <typename T>
void TensorParallel<T>::gather_look_up_gradient(const PassContext& pass, std::int64_t rows, std::int64_t columns, const T* own, T* all) {
  if (!sequence_parallel_) return;
  wait(look_up_->all_gather(placed(own, {own_rows(rows).count, columns}), placed(all, {rows, columns}),
                            message_key("embedding.look_up_gradient", pass)));
}

template <typename T>
void TensorParallel<T>::gather_statistics(const PassContext& pass, std::int64_t rows, std::int64_t columns, const T* mine, T* all) {
  wait(control_->all_gather(placed(mine, {rows, columns}), placed(all, {size_ * rows, columns}),
                            message_key("head.statistics", pass)));
}

template class TensorParallel<float>;
template class TensorParallel<double>;

}  // namespace thinwire
