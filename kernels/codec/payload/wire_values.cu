// CUDA implementation of kernels/codec/payload/wire_values.cpp: dense values as f32 or f16 on the wire. Bound: the bytes of both sides, once.
#include "kernels/codec/payload/wire_values_entries.h"
#include "kernels/codec/payload/wire_values_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_wire_pack, thinwire_cuda_wire_pack_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_wire_unpack, thinwire_cuda_wire_unpack_fn);

int thinwire_cuda_wire_pack(const float* values, std::int64_t count, int half_wire, void* wire, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return pack_values(values, count, wire, half_wire != 0, status, stream); });
}

int thinwire_cuda_wire_unpack(const void* wire, std::int64_t count, int half_wire, float factor, float* values, int add_to, std::uint32_t* status, int ordinal,
                              void* stream) {
  const UnpackValues operation{value_list(wire, half_wire != 0), factor, values, add_to != 0, status};
  return on_device(ordinal, [&] { return map(operation, count, aligned(values, 16), stream); });
}
