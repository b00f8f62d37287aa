// Weights of codecs that train with the model (auto-encoders): their gradients are summed over the ranks that share them and
// stepped by AdamW without decay at the model's learning rate.
//
// In a tensor-parallel sum every rank encodes its own partial product, so the encoder's gradient is a partial sum over the group,
// while everybody decodes the same code for the same gradient: the decoder's is whole on each rank. At a pipeline boundary the
// encoder learns on the sender and the decoder on the receiver; where the ranks of a tensor group carry different rows, both are
// partial sums over it. Replicas average.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/nn/optimizer.h"
#include "models/compute/compute_clock.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

/// Weights and gradients of the codecs lie where the thread computes (placement), as their messages do.
class CodecTraining {
 public:
  /// `replicas`: averages over the data-parallel group, or null; `tensor`: sums over the tensor group.
  CodecTraining(Channel* replicas, Channel* tensor, const nn::AdamW& options, ComputeClock& clock);

  /// The messages of `tensors` [rows, columns] on this pair: gives their codec weights of their own where it has any to train.
  /// `sums_encoder`, `sums_decoder`: whether these gradients are partial sums over the tensor group. Once per pair.
  void add(ChannelPair& pair, const std::vector<std::uint64_t>& tensors, std::int64_t columns, bool sums_encoder, bool sums_decoder);
  /// Reduces the gradients, steps, clears them. Collective over both groups. `step` is the run's and counts from 0; moments are corrected by the steps that they have
  /// seen, which begin with the rule.
  void step(std::int64_t step, double learning_rate);

  bool empty() const { return weights_.empty(); }
  std::vector<std::byte> save_state() const;
  /// CorruptData when it is not the state of as many weights.
  void load_state(std::span<const std::byte> state);
  /// Steps that each weight's moments have seen: apart from them, for older checkpoints have none.
  std::vector<std::byte> save_steps() const;
  /// Likewise. Empty: from the next step on as many as the run has taken, as older programs counted.
  void load_steps(std::span<const std::byte> state);

 private:
  struct Weights {
    CodecParameter parameter;
    bool sums_over_tensor_group;
    Tensor first, second;  ///< moments
    std::int64_t begins = 0;  ///< first step whose messages are coded
    std::int64_t steps = 0;   ///< that the moments have seen; unknown: those of the run
  };
  static constexpr std::int64_t unknown = -1;
  void reduce(Channel& channel, const char* name, std::int64_t step, bool partial_only);

  Channel *replicas_, *tensor_;
  nn::AdamW options_;
  ComputeClock& clock_;
  std::vector<Weights> weights_;
  Tensor packed_;
};

}  // namespace thinwire
