// Where a parameter's values or its gradient lie: in memory of their own, or in a part of a flat parameter's (models/store/flat_store.h), which is used like the former.
#pragma once

#include <optional>
#include <span>

#include "core/device/tensor.h"

namespace thinwire {

class ParameterMemory {
 public:
  ParameterMemory() = default;
  ParameterMemory(Shape shape, DType dtype) : own_(shape, dtype) {}
  ParameterMemory& operator=(Tensor own) {
    own_ = std::move(own), borrowed_.reset();
    return *this;
  }
  /// In the memory of `view`, whose owner outlives the use of it; what it had of its own goes.
  void borrow(const TensorView& view) { own_ = Tensor(), borrowed_ = view; }
  /// Memory of its own, whose contents are undefined when it grows.
  void reshape(Shape shape, DType dtype) { own_.reshape(shape, dtype), borrowed_.reset(); }
  /// To be taken away or given back; nothing is borrowed.
  Tensor& own() {
    TW_ASSERT(!borrowed_);
    return own_;
  }

  TensorView view() { return borrowed_ ? *borrowed_ : own_.view(); }
  ConstTensorView view() const { return borrowed_ ? ConstTensorView(*borrowed_) : own_.view(); }
  const Shape& shape() const { return borrowed_ ? borrowed_->shape() : own_.shape(); }
  std::int64_t elements() const { return shape().elements(); }
  std::size_t bytes() const { return view().bytes(); }
  template <typename T>
  std::span<T> as() {
    return view().as<T>();
  }
  template <typename T>
  std::span<const T> as() const {
    return view().as<T>();
  }
  /// On a device: in the order of the placement's stream, which must be that device's.
  void fill_zero() {
    if (!borrowed_) return own_.fill_zero();
    if (borrowed_->device().kind == DeviceKind::host) {
      std::memset(borrowed_->data(), 0, borrowed_->bytes());
      return;
    }
    TW_ASSERT(borrowed_->device() == placement().device);
    fill_zero_bytes(borrowed_->data(), borrowed_->bytes());
  }

 private:
  Tensor own_;
  std::optional<TensorView> borrowed_;
};

}  // namespace thinwire
