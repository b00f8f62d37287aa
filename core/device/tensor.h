// Views (pointer, type, shape, device) and owning tensors. Row-major and contiguous.
#pragma once

#include <cstring>
#include <span>

#include "core/device/placement.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace thinwire {

/// A read-only contiguous tensor.
class ConstTensorView {
 public:
  ConstTensorView() = default;
  ConstTensorView(const void* data, DType dtype, Shape shape, Device device = {})
      : data_(data), dtype_(dtype), shape_(shape), device_(device) {}
  template <typename T>
  ConstTensorView(const T* data, Shape shape) : ConstTensorView(data, dtype_of<T>, shape) {}

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return device_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  /// Typed access; the element type must match.
  template <typename T>
  std::span<const T> as() const {
    TW_ASSERT(dtype_ == dtype_of<T> && device_.kind == DeviceKind::host);
    return {static_cast<const T*>(data_), static_cast<std::size_t>(elements())};
  }
  /// `count` elements from `first`, as a vector; for shards and slices of a flattened tensor.
  ConstTensorView flat_slice(std::int64_t first, std::int64_t count) const {
    TW_ASSERT(first >= 0 && count >= 0 && first + count <= elements());
    return {static_cast<const std::byte*>(data_) + first * static_cast<std::int64_t>(size_of(dtype_)), dtype_, Shape{count},
            device_};
  }
  ConstTensorView reshaped(Shape shape) const {
    TW_ASSERT(shape.elements() == elements());
    return {data_, dtype_, shape, device_};
  }

 private:
  const void* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_{0};
  Device device_;
};

/// A writable contiguous tensor.
class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, Shape shape, Device device = {})
      : data_(data), dtype_(dtype), shape_(shape), device_(device) {}
  template <typename T>
  TensorView(T* data, Shape shape) : TensorView(data, dtype_of<T>, shape) {}
  operator ConstTensorView() const { return {data_, dtype_, shape_, device_}; }

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return device_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  template <typename T>
  std::span<T> as() const {
    TW_ASSERT(dtype_ == dtype_of<T> && device_.kind == DeviceKind::host);
    return {static_cast<T*>(data_), static_cast<std::size_t>(elements())};
  }
  TensorView flat_slice(std::int64_t first, std::int64_t count) const {
    TW_ASSERT(first >= 0 && count >= 0 && first + count <= elements());
    return {static_cast<std::byte*>(data_) + first * static_cast<std::int64_t>(size_of(dtype_)), dtype_, Shape{count}, device_};
  }
  TensorView reshaped(Shape shape) const {
    TW_ASSERT(shape.elements() == elements());
    return {data_, dtype_, shape, device_};
  }

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_{0};
  Device device_;
};

/// A tensor that owns its memory, where the thread computes (placement) unless said otherwise.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Device device) : buffer_(device) {}
  explicit Tensor(Shape shape, DType dtype = DType::f32, Device device = current_device()) : buffer_(device) { reshape(shape, dtype); }
  /// New shape and type; keeps the memory when it suffices. Contents are undefined afterwards.
  void reshape(Shape shape, DType dtype = DType::f32) {
    shape_ = shape;
    dtype_ = dtype;
    buffer_.reserve(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  }
  /// On a device: in the order of the placement's stream, which must be that device's.
  void fill_zero() {
    if (buffer_.device().kind == DeviceKind::host) {
      if (bytes() > 0) std::memset(buffer_.data(), 0, bytes());
      return;
    }
    TW_ASSERT(buffer_.device() == placement().device);
    fill_zero_bytes(buffer_.data(), bytes());
  }
  Device device() const { return buffer_.device(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  TensorView view() { return {buffer_.data(), dtype_, shape_, buffer_.device()}; }
  ConstTensorView view() const { return {buffer_.data(), dtype_, shape_, buffer_.device()}; }
  template <typename T>
  std::span<T> as() {
    return view().as<T>();
  }
  template <typename T>
  std::span<const T> as() const {
    return view().as<T>();
  }

 private:
  Buffer buffer_;
  Shape shape_{0};
  DType dtype_ = DType::f32;
};

}  // namespace thinwire
