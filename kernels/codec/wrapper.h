// A wrapper is state around a codec: error feedback, lazy error propagation, EF21. (Wrappers of the other kind, which change what the codec sees message by
// message, are codecs around the codec: kernels/codec/transformed_codec.h.)
#pragma once

#include "kernels/codec/codec.h"

namespace thinwire {

/// Hooks of one message. State is keyed by key.state_key(); it advances only for Pass::train.
/// Order for a reduction: before_encode, (rounds or gather), deliver, after_reduce. For a message: sender before_encode, after_encode, and keep_own where
/// it uses the message as its receivers do (all-gather, broadcast); receiver after_decode.
class Wrapper {
 public:
  virtual ~Wrapper() = default;
  /// Whether after_encode / after_reduce need what the rank's own message decodes to (costs a decode).
  virtual bool needs_own_decoded() const = 0;
  /// Sender: `x` is the channel's private copy of the input and may be changed (e.g. x += residual).
  virtual void before_encode(TensorView x, const MessageKey& key) = 0;
  /// Sender of a point-to-point message, instead of before_encode and after_encode: a wrapper whose only state is what the last message
  /// lost may lend that memory, one tensor instead of three. On return it holds `x` + residual, which is encoded; then the caller leaves
  /// in it what this message lost. Empty (the default): not this wrapper, or not this message.
  virtual TensorView lend_residual(ConstTensorView /*x*/, const MessageKey&) { return {}; }
  /// Sender of a point-to-point message: `x` as encoded, `own_decoded` what the receiver will see.
  virtual void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) = 0;
  /// Receiver of a point-to-point message: may change the decoded tensor (delta caches add their memory).
  virtual void after_decode(TensorView decoded, const MessageKey& key) = 0;
  /// Sender that keeps its message, after after_encode: `decoded` becomes what receivers make of it in after_decode.
  virtual void keep_own(TensorView /*decoded*/, const MessageKey&) {}
  /// Before the first all-gather of a tensor whose ranks hold the same copy from before: `held` is a block of that, of this rank (`own`, under the
  /// gather's key) or of another (under the block's). A wrapper that remembers nothing of the block begins with it.
  virtual void start_from(ConstTensorView /*held*/, const MessageKey&, bool /*own*/) {}
  /// `reduced`: the sum, or mean, over ranks of what was decoded; becomes what the reduction delivers. Where it is a rank's block only, always that block.
  virtual void deliver(TensorView /*reduced*/, const MessageKey&) {}
  /// Whether `deliver` needs every result of a tensor, so that none may be left on one rank alone.
  virtual bool remembers_results() const { return false; }
  /// After a reduction: `local` as encoded; `own_decoded`, or an empty view where that has no form (rounds of a codec whose FeedbackSource is `reduced`);
  /// `reduced_mean` = what was delivered, as the mean over ranks.
  virtual void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean,
                            const MessageKey& key) = 0;
  /// As Codec::save_state and load_state. A wrapper without state between messages leaves them as they are.
  virtual void save_state(StateWriter&) const {}
  virtual void load_state(StateReader&) {}
};

}  // namespace thinwire
