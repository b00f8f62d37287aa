// Entry points of kernels/codec/payload/wire_values.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
/// Dense values as f32 or f16 on the wire, at any address: what does not fit is reported ...
using thinwire_cuda_wire_pack_fn = int(const float* values, std::int64_t count, int half_wire, void* wire, std::uint32_t* status, int ordinal, void* stream);
/// ... and values = factor * wire, or +=.
using thinwire_cuda_wire_unpack_fn = int(const void* wire, std::int64_t count, int half_wire, float factor, float* values, int add, std::uint32_t* status,
                                         int ordinal, void* stream);
}
