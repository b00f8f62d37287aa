#include "kernels/values.h"

#include <cstring>
#include <map>
#include <mutex>

#include "core/device/device_entry.h"
#include "kernels/codec/codecs/dense/cast_entries.h"
#include "kernels/codec/wrappers/residuals_entries.h"
#include "kernels/convert.h"
#include "kernels/nn/device/device_nn.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

bool together_on_host(ConstTensorView a, ConstTensorView b) {
  const Device here = placement().device;
  TW_ASSERT(a.device() == here && b.device() == here, "a tensor lies elsewhere than the thread computes");
  TW_ASSERT(a.elements() == b.elements() && a.dtype() == b.dtype(), a.shape().to_string() + " against " + b.shape().to_string());
  return here.kind == DeviceKind::host;
}
float* floats(TensorView x) {
  TW_ASSERT(x.dtype() == DType::f32);
  return static_cast<float*>(x.data());
}
const float* floats(ConstTensorView x) {
  TW_ASSERT(x.dtype() == DType::f32);
  return static_cast<const float*>(x.data());
}

template <typename To, typename From>
void convert_on_host(const void* from, void* to, std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  convert(std::span<const From>(static_cast<const From*>(from), n), std::span<To>(static_cast<To*>(to), n));
}

// The cast kernels report NaN and infinity, which a dense tensor may hold: nobody reads this word. One per device, never released.
std::uint32_t* unread_status() {
  static std::mutex mutex;
  static auto* words = new std::map<int, Buffer*>;
  const std::lock_guard lock(mutex);
  Buffer*& word = (*words)[placement().device.ordinal];
  if (word == nullptr) word = new Buffer(16, placement().device);
  return reinterpret_cast<std::uint32_t*>(word->data());
}

}  // namespace

void convert_values(const void* from, DType from_type, void* to, DType to_type, std::int64_t count) {
  if (count == 0) return;
  if (from_type == to_type) {
    if (from != to) copy_bytes(to, from, static_cast<std::size_t>(count) * size_of(from_type));
    return;
  }
  const bool narrows = from_type == DType::f32;
  const DType narrow = narrows ? to_type : from_type;
  TW_ASSERT((narrows || to_type == DType::f32) && (narrow == DType::f16 || narrow == DType::bf16), "no such conversion");
  const bool half = narrow == DType::f16;
  if (placement().on_host()) {
    if (narrows) return half ? convert_on_host<Half, float>(from, to, count) : convert_on_host<BFloat16, float>(from, to, count);
    return half ? convert_on_host<float, Half>(from, to, count) : convert_on_host<float, BFloat16>(from, to, count);
  }
  static const DeviceEntry<thinwire_cuda_cast_encode_fn> encode("thinwire_cuda_cast_encode");
  static const DeviceEntry<thinwire_cuda_cast_decode_fn> decode("thinwire_cuda_cast_decode");
  if (narrows)
    encode(static_cast<const float*>(from), count, half ? 0 : 1, to, unread_status());
  else
    decode(from, count, half ? 0 : 1, static_cast<float*>(to), 0, unread_status());
}

void scale_values(TensorView to, ConstTensorView x, float factor) {
  const std::int64_t n = to.elements();
  if (together_on_host(to, x)) return scale(to.as<float>(), x.as<float>(), factor);
  if (n == 0) return;
  copy_values(to, x);
  static const DeviceEntry<thinwire_cuda_scale_in_place_fn> entry("thinwire_cuda_scale_in_place");
  entry(device_f32, n, factor, static_cast<void*>(floats(to)));
}

void add_values(TensorView to, ConstTensorView x, float factor) {
  const std::int64_t n = to.elements();
  if (together_on_host(to, x)) {
    if (factor == 1.0f) return accumulate(to.as<float>(), x.as<float>());
    float* a = floats(to);
    const float* b = floats(x);
    return parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) a[i] += factor * b[i];
    });
  }
  if (n == 0) return;
  static const DeviceEntry<thinwire_cuda_residual_add_fn> entry("thinwire_cuda_residual_add");
  entry(floats(to), floats(x), factor, n);
}

void subtract_values(TensorView to, ConstTensorView a, ConstTensorView b) {
  const std::int64_t n = to.elements();
  const bool host = together_on_host(to, a) && together_on_host(to, b);
  float* result = floats(to);
  const float *left = floats(a), *right = floats(b);
  if (host)
    return parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) result[i] = left[i] - right[i];
    });
  if (n == 0) return;
  static const DeviceEntry<thinwire_cuda_residual_store_fn> entry("thinwire_cuda_residual_store");
  entry(left, right, result, n);
}

void copy_values(TensorView to, ConstTensorView x) {
  (void)together_on_host(to, x);
  if (to.data() != x.data()) copy_bytes(to.data(), x.data(), to.bytes());
}

Tensor on_host(ConstTensorView x) {
  Tensor copy(x.shape(), x.dtype(), Device{});
  TW_ASSERT(x.device().kind == DeviceKind::host || x.device() == placement().device, "a tensor lies elsewhere than the thread computes");
  if (x.bytes() == 0) return copy;
  if (x.device().kind == DeviceKind::host)
    std::memcpy(copy.view().data(), x.data(), x.bytes());
  else
    copy_and_wait(copy.view().data(), x.data(), x.bytes());
  return copy;
}

}  // namespace thinwire
