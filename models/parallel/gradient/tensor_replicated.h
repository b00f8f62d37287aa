// Parameters that every rank of a tensor group holds whole while each saw its own tokens only: under sequence parallelism their gradients are
// summed over the group, exactly, before replicas reduce them. Those of flat parameters' members, afterwards: what a rank then has of them is a part.
#pragma once

#include <optional>
#include <vector>

#include "collectives/channel/channel.h"
#include "models/compute/compute_clock.h"
#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
class TensorReplicated {
 public:
  /// `active`: whether tokens are split over the tensor group at all. `name`: of the message.
  TensorReplicated(const char* name, bool active, Channel& tensor_control, ComputeClock& clock) : name_(name), active_(active), channel_(tensor_control), clock_(clock) {}

  /// Takes the parameter in when its gradient must be summed; says whether.
  bool add(Parameter<T>& parameter) { return add(parameter, {}); }
  /// Likewise; `gradient` is what is summed of it.
  bool add_part(Parameter<T>& parameter, const TensorView& gradient) { return add(parameter, gradient); }
  /// Collective over the tensor group; nothing where no parameter was taken in.
  void sum(std::int64_t step, double& waited_us);

 private:
  struct Summed {
    Parameter<T>* parameter;
    std::optional<TensorView> part;  ///< without: the whole gradient, wherever it lies then
    TensorView view() const { return part ? *part : parameter->gradient.view(); }
  };
  bool add(Parameter<T>& parameter, const std::optional<TensorView>& part);

  const char* name_;
  bool active_;
  Channel& channel_;
  ComputeClock& clock_;
  std::vector<Summed> all_;
  Tensor packed_;
};

}  // namespace thinwire
