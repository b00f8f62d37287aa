// The ranks of a sum over gradients in one process: a codec with its wrappers for each, driven as a channel drives it (docs/collectives.md, "Protocols"), and the tensor in
// place of every message. What codecs compute is theirs; nothing of it is repeated here.
#pragma once

#include <string>
#include <vector>

#include "kernels/codec/registry.h"

namespace thinwire::claims::gradient_compression {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Bytes = std::vector<std::byte>;

/// A reduction, seen from all sides.
struct Reduced {
  Floats sum;                            ///< over ranks, as rank 0 gets it
  std::vector<Floats> given;             ///< by rank: what its codec was given, wrappers included
  std::vector<Floats> own;               ///< by rank: what its contribution decodes to
  std::vector<std::vector<Bytes>> sent;  ///< by message (rounds) and rank; a payload is one message
  std::vector<Bytes> received;           ///< by round: the reduction of what was sent; empty of payloads
};

class LocalRanks {
 public:
  LocalRanks(const std::string& codec, int ranks, Form form = Form::fair);

  /// The sum of `inputs`, one per rank, as one tensor of this name: by the codec's rounds where it has them, else by payloads, decoded and added in rank order.
  Reduced reduce(const std::vector<Floats>& inputs, Shape shape, std::int64_t step = 0, const std::string& tensor = "gradient");

 private:
  Reduced by_rounds(Reduced r, Shape shape, const MessageKey& key);
  Reduced by_payloads(Reduced r, Shape shape, const MessageKey& key);

  std::vector<CodecStack> ranks_;
};

/// A message from one rank to itself: the payload's bytes and what it decodes to.
struct Sent {
  std::size_t bytes = 0;
  Floats decoded;
};
Sent send(Codec& codec, const Floats& x, Shape shape, std::int64_t step = 0);

/// Standard normal numbers of this seed and name.
Floats normal_numbers(std::int64_t count, std::uint64_t seed, const std::string& name);

/// In float64.
double relative_l2(const Floats& a, const Doubles& b);
double cosine(const Floats& a, const Doubles& b);
Doubles sum_of(const std::vector<Floats>& all);

}  // namespace thinwire::claims::gradient_compression
