// What policies average over replicas in a step, other than gradients: a message for each matrix, which a
// rule may compress, and one for all vectors together, which travel dense and are small: alone each would
// cost a latency.
#pragma once

#include <string>
#include <vector>

#include "models/update/update_policy.h"

namespace thinwire {

template <typename T>
class ReplicaExchange {
 public:
  /// Of one part of the store; `mean` may be the memory of `own`. Both outlive the exchange.
  struct Message {
    TensorView own, mean;
  };
  /// `channels`: null: there is one replica. `messages`: by the store's parts, in their order. `prefix`: of
  /// the messages' names, behind which a parameter's follows.
  ReplicaExchange(const UpdateContext<T>& context, ChannelPair* channels, std::vector<Message> messages,
                  const std::string& prefix);

  /// MessageKey::tensor of part i, where it is a matrix.
  std::uint64_t id(std::size_t i) const { return ids_[i]; }
  /// Whether a codec takes part i in this step.
  bool codes(std::size_t i, std::int64_t step) const;
  /// Every `mean` is the mean over replicas of `own` as it arrives. Adds the time of waiting to `waited_us`.
  void run(std::int64_t step, double& waited_us);

 private:
  const std::vector<OwnedPart<T>>& parts_;
  ChannelPair* channels_;
  int stage_;
  std::vector<Message> messages_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t vectors_id_;
  Tensor vectors_;  ///< one behind the other
};

}  // namespace thinwire
