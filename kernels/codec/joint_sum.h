// What some codecs know about sums over ranks; capabilities as those of capabilities.h.
#pragma once

#include <span>
#include <string>

#include "kernels/codec/codec.h"

namespace thinwire {

/// Messages of one tensor from several ranks that are decoded side by side, where what they add up to depends on who sent an element.
class JointSum {
 public:
  virtual ~JointSum() = default;
  /// False: the sum is that of the decoded messages, and decode_together is not called.
  virtual bool sums_jointly() const = 0;
  /// Overwrites `sum` (f32) with as many times the mean of the messages as there are of them, so that a mean over ranks is this mean.
  virtual void decode_together(std::span<const std::span<const std::byte>> payloads, const MessageKey& key, TensorView sum) = 0;
};

/// Rounds that need another operator than sum (traits().operators), which not every communicator has.
class SumsAlone {
 public:
  virtual ~SumsAlone() = default;
  /// Parameters with which sums would do, and at what price: for the message that refuses it. Empty: there are none.
  virtual std::string by_sums_alone() const = 0;
};

}  // namespace thinwire
