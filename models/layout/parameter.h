// A trainable tensor of a model: value, gradient, and where it lies.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "models/layout/layout.h"
#include "models/layout/parameter_memory.h"

namespace thinwire {

/// While one that is `wanted` lives, matrices that say how they begin get no memory on this thread: a store of shards (models/store) has each
/// rank make the rows that it keeps, so that no rank ever holds the whole model.
class DeferredMatrices {
 public:
  explicit DeferredMatrices(bool wanted) : outer_(std::exchange(deferring_, wanted)) {}
  DeferredMatrices(const DeferredMatrices&) = delete;
  DeferredMatrices& operator=(const DeferredMatrices&) = delete;
  ~DeferredMatrices() { deferring_ = outer_; }
  static bool now() { return deferring_; }

 private:
  static inline thread_local bool deferring_ = false;
  bool outer_;
};

/// First values of rows [first_row, first_row + to's rows) of this rank's part of a parameter.
using RowInitialiser = std::function<void(const ParameterLayout& layout, std::int64_t first_row, TensorView to)>;

/// Those of initialise_normal.
inline RowInitialiser normal_rows(std::uint64_t seed, double deviation) {
  return [=](const ParameterLayout& layout, std::int64_t first_row, TensorView to) { initialise_normal(layout, seed, deviation, to, first_row); };
}

/// A store of shards takes value and gradient away and lends them for a while, of matrices or of all that a flat parameter is made of: without they are empty, and shapes are the layout's.
template <typename T>
struct Parameter {
  ParameterLayout layout;
  bool decays = false;  ///< weight decay acts on matrices, not on biases and layernorm vectors
  ParameterMemory value, gradient;
  RowInitialiser initialise = {};  ///< of a deferred matrix: how its values begin; empty again once a store has made them for good

  Parameter() = default;
  Parameter(ParameterLayout where, bool with_decay, RowInitialiser first_values) : layout(std::move(where)), decays(with_decay) {
    const Shape shape = layout.local();
    if (DeferredMatrices::now() && shape.rank() == 2) {
      initialise = std::move(first_values);
      return;
    }
    value.reshape(shape, dtype_of<T>), gradient.reshape(shape, dtype_of<T>);
    gradient.fill_zero();
    first_values(layout, 0, value.view());
  }
  Parameter(ParameterLayout where, bool with_decay)
      : layout(std::move(where)),
        decays(with_decay),
        value(layout.local(), dtype_of<T>),
        gradient(layout.local(), dtype_of<T>) {
    value.fill_zero();
    gradient.fill_zero();
  }
  const std::string& name() const { return layout.name(); }
  Shape shape() const { return layout.local(); }
  std::int64_t elements() const { return shape().elements(); }
  bool has_value() const { return value.elements() == elements(); }
  bool has_gradient() const { return gradient.elements() == elements(); }
  T* w() { return static_cast<T*>(value.view().data()); }
  const T* w() const { return static_cast<const T*>(value.view().data()); }
  T* g() { return static_cast<T*>(gradient.view().data()); }
  const T* g() const { return static_cast<const T*>(gradient.view().data()); }
  void fill(T constant) {
    const std::vector<T> constants(static_cast<std::size_t>(elements()), constant);
    copy_and_wait(w(), constants.data(), value.bytes());
  }
};

template <typename T>
using ParameterList = std::vector<Parameter<T>*>;

/// Pointer to a tensor's data after giving it this shape; memory is kept when it suffices.
template <typename T>
T* shaped(Tensor& tensor, Shape shape) {
  tensor.reshape(shape, dtype_of<T>);
  return static_cast<T*>(tensor.view().data());
}

/// A tensor's elements, where its type is known from the context.
template <typename T>
const T* data_of(const Tensor& tensor) {
  TW_ASSERT(tensor.dtype() == dtype_of<T>);
  return static_cast<const T*>(tensor.view().data());
}
template <typename T>
T* data_of(Tensor& tensor) {
  TW_ASSERT(tensor.dtype() == dtype_of<T>);
  return static_cast<T*>(tensor.view().data());
}

/// A view of memory that lies where the thread computes (placement). The constructors from a typed pointer say: on the host.
template <typename T>
TensorView placed(T* data, Shape shape) {
  return {data, dtype_of<T>, shape, current_device()};
}
template <typename T>
ConstTensorView placed(const T* data, Shape shape) {
  return {data, dtype_of<T>, shape, current_device()};
}

/// The one number of a tensor [1] of f64; waits for the device it lies on, which is the thread's (placement) or the host.
inline double read_number(const Tensor& number) {
  TW_ASSERT(number.dtype() == DType::f64 && number.elements() == 1);
  double value = 0;
  copy_and_wait(&value, number.view().data(), sizeof value);
  return value;
}

/// Sums a buffer over a group of ranks, in place. Empty on one device: then nothing is split.
template <typename T>
using GroupSum = std::function<void(std::span<T>)>;

}  // namespace thinwire
