#include "kernels/values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>

#include "core/device/device_entry.h"
#include "core/half.h"
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

// The parity mode's type: its narrow values are those that f32 would have.
template <typename Narrow>
Narrow narrow_from(double value) {
  const auto single = static_cast<float>(value);
  if constexpr (std::is_same_v<Narrow, Half>)
    return to_half(single);
  else if constexpr (std::is_same_v<Narrow, BFloat16>)
    return to_bfloat16(single);
  else
    return single;
}
double widened(float value) { return value; }
double widened(Half value) { return to_float(value); }
double widened(BFloat16 value) { return to_float(value); }

template <typename Narrow>
void convert_f64(const void* from, void* to, std::int64_t count, bool narrows) {
  if (narrows)
    std::transform(static_cast<const double*>(from), static_cast<const double*>(from) + count, static_cast<Narrow*>(to), narrow_from<Narrow>);
  else
    std::transform(static_cast<const Narrow*>(from), static_cast<const Narrow*>(from) + count, static_cast<double*>(to), [](Narrow value) { return widened(value); });
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
  if (from_type == DType::f64 || to_type == DType::f64) {
    TW_ASSERT(placement().on_host(), "f64 is converted on the host alone");
    const bool to_narrow = from_type == DType::f64;
    switch (to_narrow ? to_type : from_type) {
      case DType::f16:
        return convert_f64<Half>(from, to, count, to_narrow);
      case DType::bf16:
        return convert_f64<BFloat16>(from, to, count, to_narrow);
      default:
        TW_ASSERT((to_narrow ? to_type : from_type) == DType::f32, "no such conversion");
        return convert_f64<float>(from, to, count, to_narrow);
    }
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
