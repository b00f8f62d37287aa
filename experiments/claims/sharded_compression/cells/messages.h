// Messages through codecs without ranks, for what is claimed of the codecs' mathematics alone; and the mean over nodes in two steps, message by message as
// models/parallel/channels/row_exchange.h sends it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec/message.h"

namespace thinwire::claims::sharded_compression {

using Values = std::vector<float>;

/// Numbers of a normal distribution, the same for the same stream.
Values normal_values(std::size_t count, const std::string& stream, double deviation = 1);

/// One channel: a codec with its wrappers, sender and receiver.
class Wire {
 public:
  explicit Wire(const std::string& expression) : stack_(make_codec(expression)) {}
  /// What is decoded from the message of x, seen as [rows, columns].
  Values arrives(std::span<const float> x, const MessageKey& key, std::int64_t rows = 1);
  /// Of the last message.
  std::span<const std::byte> payload() const { return {payload_.data(), bytes_}; }

 private:
  CodecStack stack_;
  std::vector<std::byte> payload_;
  std::size_t bytes_ = 0;
  MessageScratch scratch_;
};

/// W = nodes x per_node ranks. Rank (n, l) gets part n of block l of the sum: blocks are summed inside the nodes first, so one of per_node leaves a node. With one
/// node, or one rank in each, a single step is left.
struct TwoLevels {
  std::string inside, across;  ///< codecs
  int nodes = 2, per_node = 2;
  /// Each rank rounds by random numbers of its own in each hop; false: by those of the message's key as channels number it, which is equal on all ranks, and of which
  /// some pieces of both hops share one.
  bool own_draws = false;
  int ranks() const { return nodes * per_node; }
};
/// The sum over ranks of `gradients` (by rank: those of a node together; equal lengths that W divides) as it arrives, all parts in order. Sums are f32. Parts are rows
/// of the messages, so groups of codecs do not cross them.
Values two_level_sum(const std::vector<Values>& gradients, const TwoLevels& form, std::int64_t step = 0);

/// Sum over ranks in f64.
std::vector<double> exact_sum(const std::vector<Values>& gradients);
/// ||factor * x - reference|| / ||reference||.
double relative_error(const Values& x, const std::vector<double>& reference, double factor = 1);
double relative_error(const Values& x, const Values& reference);
/// <factor * x, reference> / <reference, reference>.
double slope(const Values& x, const std::vector<double>& reference, double factor = 1);

}  // namespace thinwire::claims::sharded_compression
