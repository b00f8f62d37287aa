// How a message is named: equally on all ranks, for state, random numbers and error messages.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "core/random.h"

namespace thinwire {

/// Why a message is sent. Only `train` advances the state of codecs and wrappers; `recompute` replays the
/// first pass's decoded result (the channel keeps it: codecs are not asked again); `evaluate` leaves no trace.
enum class Pass : std::uint8_t { train, recompute, evaluate };

/// Names a message uniquely and equally on all ranks; state and random numbers are keyed by it. With it travels what the sender knows about the
/// message (`samples`, `tokens`): codecs and wrappers of both ends see it, nothing of it is sent.
struct MessageKey {
  std::uint64_t tensor = 0;       ///< hash_name of the tensor's name
  std::int64_t step = 0;
  std::int32_t micro_batch = 0;
  std::int32_t slice = 0;         ///< shard or piece of the tensor (two_shot, reduce-scatter, sequence slices)
  std::int32_t virtual_stage = 0;
  Pass pass = Pass::train;
  std::int64_t trained_steps = std::numeric_limits<std::int64_t>::max();  ///< of an evaluation: steps of training behind it, where that decides what is coded
  /// Who encodes, where several ranks encode the same elements to be summed, or what comes of them is averaged (replicas); 0 elsewhere. Only rounding_stream() has it. Where
  /// a channel sums it mixes its rank and step into what a caller gives: the replica, or the number of the group, where several groups make parts of one sum.
  std::uint64_t sender = 0;
  std::int32_t stack = 1;         ///< matrices of one shape under one another in this tensor: a low-rank codec gives each its own factors
  /// Ids of the samples in this message, in its order, for caches per sample; empty where they are not known. Valid during the call.
  std::span<const std::int64_t> samples = {};
  /// Token ids of the rows, likewise.
  std::span<const std::int32_t> tokens = {};

  /// Key of what persists over steps and micro-batches: (tensor, slice, virtual stage).
  std::uint64_t state_key() const {
    return mix_stream(mix_stream(tensor, static_cast<std::uint64_t>(slice)), static_cast<std::uint64_t>(virtual_stage) + (1ull << 32));
  }
  /// Stream of the random numbers of this message; equal on all ranks and in a recomputation.
  std::uint64_t random_stream() const {
    return mix_stream(mix_stream(state_key(), static_cast<std::uint64_t>(step)), static_cast<std::uint64_t>(micro_batch) + (2ull << 32));
  }
  /// Stream of what the sender alone draws, to round: apart for every rank and step of a sum, whose errors are then independent. Equal in a recomputation.
  std::uint64_t rounding_stream() const { return sender == 0 ? random_stream() : mix_stream(random_stream(), sender); }
  MessageKey with_pass(Pass why) const {
    MessageKey k = *this;
    k.pass = why;
    return k;
  }
  MessageKey with_slice(std::int32_t s) const {
    MessageKey k = *this;
    k.slice = s;
    return k;
  }
};

}  // namespace thinwire
