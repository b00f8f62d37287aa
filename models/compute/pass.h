// Which pass over which data: keys of dropout, of messages and of random codecs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "core/tensor_names.h"
#include "kernels/codec/payload/message_key.h"

namespace thinwire {

struct PassContext {
  std::int64_t batch = 0, seq = 0;
  bool train = true;  ///< dropout acts
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;  ///< number of the first sequence within the step's global batch
  std::int32_t micro = 0;         ///< micro-batch within the replica's share of the step
  std::uint64_t replica = 0;      ///< whose share: what replicas round by chance is averaged, so they must not round alike (MessageKey::sender)
  Pass why = Pass::train;
  std::int64_t trained_steps = std::numeric_limits<std::int64_t>::max();  ///< MessageKey::trained_steps
  // A slice of a token-sliced pipeline: tokens [first_token, first_token + seq) of sequences of `length` tokens; length 0: whole sequences.
  std::int64_t first_token = 0, length = 0;
  std::int32_t slice = 0;  ///< its number
  /// Ids of the batch's samples (Batch::sample_ids), or empty. They live as long as the batch.
  std::span<const std::int64_t> samples = {};
  /// Token ids of the batch, its whole sequences, where a codec between stages goes by them; else empty. They live as long.
  std::span<const std::int32_t> tokens = {};
  std::int64_t rows() const { return batch * seq; }
  bool sliced() const { return length > 0; }
};

/// Name of a tensor on the wire, for a pass.
inline MessageKey message_key(std::string_view tensor, const PassContext& pass) {
  MessageKey key;
  key.tensor = tensor_id(tensor);
  key.step = static_cast<std::int64_t>(pass.step);
  key.micro_batch = pass.micro;
  key.slice = pass.slice;
  key.pass = pass.why;
  key.trained_steps = pass.trained_steps;
  key.sender = pass.replica;
  return key;
}

}  // namespace thinwire
