// Parameters that every rank of a tensor group holds whole while each saw its own tokens only: under sequence parallelism their gradients are
// summed over the group, exactly, before replicas reduce them.
#pragma once

#include "collectives/channel/channel.h"
#include "models/compute/compute_clock.h"
#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
class TensorReplicated {
 public:
  /// `active`: whether tokens are split over the tensor group at all.
  TensorReplicated(bool active, Channel& tensor_control, ComputeClock& clock) : active_(active), channel_(tensor_control), clock_(clock) {}

  /// Takes the parameter in when its gradient must be summed; says whether.
  bool add(Parameter<T>& parameter);
  /// Collective over the tensor group; nothing where no parameter was taken in.
  void sum(std::int64_t step, double& waited_us);

 private:
  bool active_;
  Channel& channel_;
  ComputeClock& clock_;
  ParameterList<T> parameters_;
  Tensor packed_;
};

}  // namespace thinwire
