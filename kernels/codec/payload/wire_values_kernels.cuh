// Dense factors on the wire, on a device: the CUDA implementation of kernels/codec/payload/wire_values.cpp.
#pragma once

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/value_list.cuh"

namespace thinwire::cuda {

/// list[i] = values[i]; what the wire type cannot hold is reported.
struct PackValues {
  static constexpr int width = 4;
  const float* values;
  ValueList list;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth];
    load_pack<kWidth>(values + i, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) list.store(i + j, v[j], status);
  }
};

/// values[i] = factor * list[i], or +=; NaN and infinity are reported as damage.
struct UnpackValues {
  static constexpr int width = 4;
  ValueList list;
  float factor;
  float* values;
  bool add_to;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth] = {};
    if (add_to) load_pack<kWidth>(values + i, v);
    bool good = true;
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      bool fine = true;
      const float value = multiply(list.load(i + j, fine), factor);
      v[j] = add_to ? add(v[j], value) : value;
      good = good && fine;
    }
    if (!good) atomicOr(status, device_status_damaged);
    store_pack<kWidth>(values + i, v);
  }
};

/// Reports NaN and infinity among values.
struct CheckFinite {
  static constexpr int width = 4;
  const float* values;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth];
    load_pack<kWidth>(values + i, v);
    bool bad = false;
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) bad = bad || !finite_bits(bits_of(v[j]));
    if (bad) atomicOr(status, device_status_non_finite);
  }
};

inline cudaError_t pack_values(const float* values, std::int64_t count, void* wire, bool half, std::uint32_t* status, void* stream) {
  return map(PackValues{values, value_list(wire, half), status}, count, aligned(values, 16), stream);
}
inline cudaError_t unpack_values(const void* wire, std::int64_t count, float* values, bool half, std::uint32_t* status, void* stream) {
  return map(UnpackValues{value_list(wire, half), 1.0f, values, false, status}, count, aligned(values, 16), stream);
}

}  // namespace thinwire::cuda
