// Momentum where gradients are sent late: what deep gradient compression keeps on each rank (Lin et al., ICLR 2018, arXiv 1712.01887; docs/papers/gradient_compression.md,
// "Deep gradient compression").
//   u = m u + g;   v = v + u          Nesterov: v = v + g + m u
//   of v is sent what a codec makes of it:   v = v - sent;   where sent is not 0:  u = 0 (factor masking)
// Adding gradients up and applying momentum at the receiver would give an element that is sent every T steps T gradients and one factor m; v has momentum as if each had been
// sent at once. Without masking u would go on adding gradients to an element that were sent long ago.
#pragma once

#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

/// Over a list of tensors, on the host.
template <typename T>
class MomentumCorrection {
 public:
  MomentumCorrection(const std::vector<Shape>& shapes, double momentum, bool nesterov, bool masking);

  /// A step's gradient of tensor i, times `scale`.
  void add(std::size_t i, const T* gradient, double scale);
  /// v of tensor i is what is sent now. `arrived`: what receivers make of it. The authors set v = 0 where they sent; here what values in f16 have lost stays.
  void sent(std::size_t i, ConstTensorView arrived);
  /// All of it, in full: nothing is late, and the momentum goes on.
  void sent_whole(std::size_t i) { late_[i].fill_zero(); }

  Tensor& momentum(std::size_t i) { return momentum_[i]; }  ///< u
  Tensor& late(std::size_t i) { return late_[i]; }          ///< v

 private:
  double factor_;
  bool nesterov_, masking_;
  std::vector<Tensor> momentum_, late_;
};

}  // namespace thinwire
