// Passes that read rounded parameters (FSDP's MixedPrecision.param_dtype; docs/training.md, "Sharded training"): an update changes weights in full precision, and
//   value = round(weights), to nearest even
// is what passes read, in memory of the weights' type. Values that are gathered are rounded on the wire; here are those that lie whole on a rank.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "kernels/values.h"
#include "models/compute/compute_clock.h"
#include "models/store/owned_part.h"

namespace thinwire {

template <typename T>
class RoundedValues {
 public:
  /// `to` empty, or the weights' own type: nothing is rounded.
  RoundedValues(std::optional<DType> to, ComputeClock& clock) : to_(to.value_or(dtype_of<T>)), clock_(clock) {}
  explicit operator bool() const { return to_ != dtype_of<T>; }

  /// From now on the weights of `part`, which is whole, have memory of their own, and its value is rounded.
  void keep(OwnedPart<T>& part) {
    if (!*this) return;
    const TensorView value = part.parameter->value.view();
    Kept& kept = kept_.emplace_back(Kept{part.parameter, part.unit, Tensor(value.shape(), dtype_of<T>)});
    copy_values(kept.weights.view(), value);
    part.weights = kept.weights.view();
    round(value, value);
  }
  /// The weights of kept parts have changed: their values follow.
  void follow() {
    for (Kept& kept : kept_)
      clock_.run("round weights", kept.unit, -1, [&] { round(kept.weights.view(), kept.parameter->value.view()); });
  }
  /// In place: what a gather would deliver, of values that came another way.
  void round(TensorView values) {
    if (*this) round(values, values);
  }

 private:
  struct Kept {
    Parameter<T>* parameter;
    int unit;
    Tensor weights;
  };
  static constexpr std::int64_t at_once = 1 << 14;  // the narrow copy takes 32 KiB

  void round(ConstTensorView from, TensorView to) {
    const std::int64_t n = from.elements();
    narrow_.reshape({std::min(n, at_once)}, to_);
    for (std::int64_t done = 0; done < n; done += at_once) {
      const std::int64_t count = std::min(at_once, n - done);
      convert_values(static_cast<const T*>(from.data()) + done, dtype_of<T>, narrow_.view().data(), to_, count);
      convert_values(narrow_.view().data(), to_, static_cast<T*>(to.data()) + done, dtype_of<T>, count);
    }
  }

  DType to_;
  ComputeClock& clock_;
  std::deque<Kept> kept_;
  Tensor narrow_;
};

}  // namespace thinwire
