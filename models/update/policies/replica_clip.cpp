#include "models/update/policies/replica_clip.h"

#include <cmath>

#include "core/tensor_names.h"
#include "kernels/nn/sums.h"
#include "models/optimizer/gradient_sums.h"
#include "models/training/config/train_config.h"

namespace thinwire {

template <typename T>
ReplicaClip<T>::ReplicaClip(const UpdateContext<T>& c, bool clips)
    : max_norm_(c.config.trainer.max_norm),
      replicas_(c.config.mesh.dp),
      clips_(clips),
      tensor_control_(c.tensor_control),
      parts_(adam_parts(c, c.store.parts(), NormScope::model)) {}

template <typename T>
void ReplicaClip<T>::add_sum_of_squares(double* sum) const {
  double* const squares = shaped<double>(squares_, {1});
  squares_.fill_zero();
  add_gradient_squares(parts_, squares);
  nn::add_total<double, double>(1, squares, 1.0, replicas_, sum);
}

template <typename T>
double ReplicaClip<T>::factor(std::int64_t step) {
  if (!clips_) return 1;
  T squares = static_cast<T>(read_number(squares_));
  const TensorView one(&squares, {1});
  if (tensor_control_.communicator().size() > 1) {
    MessageKey key;
    key.tensor = tensor_id("norm of one replica");
    key.step = step;
    tensor_control_.all_reduce(one, one, key).wait();
  }
  return nn::clip_factor(std::sqrt(static_cast<double>(squares)), max_norm_ * std::sqrt(replicas_));
}

template class ReplicaClip<float>;
template class ReplicaClip<double>;

ParameterSpec replica_clip_parameter() {
  return {.name = "clip",
          .kind = ParameterSpec::Kind::flag,
          .default_value = "true",
          .help = "clip each rank's gradient to --clip times the root of the ranks"};
}

}  // namespace thinwire
