// The matrix units' product of 16 x 16 by 16 x 8 in bf16 with f32 sums (PTX mma.sync.m16n8k16), and the load that turns a tile around.
// Fragments, as the PTX manual lays them out; lane = 4 group + pair:
//   A [16, 16]: a[0] row group,     columns 2 pair, 2 pair + 1      a[2] the same rows, columns + 8
//               a[1] row group + 8, the same columns                a[3] row group + 8, columns + 8
//   B [16, 8]:  b[0] rows 2 pair, 2 pair + 1 of column group        b[1] rows + 8
//   C [16, 8]:  c[0], c[1] row group, columns 2 pair, 2 pair + 1    c[2], c[3] row group + 8
// Two neighbours share a register, the lower one in the low half.
#pragma once

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/reduce.cuh"

namespace thinwire::cuda {

__device__ inline std::uint32_t pack_bf16(float low, float high) { return bfloat16_bits(low) | static_cast<std::uint32_t>(bfloat16_bits(high)) << 16; }

/// C += A B.
__device__ inline void multiply_tiles(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const int group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  struct Registers {
    const std::uint32_t *a, *b;
  } const own{a, b};
  const auto half_of = [](std::uint32_t word, int which) { return float_of(which == 0 ? word << 16 : word & 0xffff0000u); };
  show(&own);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) {
      const int owner = k % 8 / 2;  // within its group
      const std::uint32_t left = shown_by<Registers>(4 * group + owner)->a[i / 2 + 2 * (k / 8)];
      const std::uint32_t right = shown_by<Registers>(4 * (2 * pair + i % 2) + owner)->b[k / 8];
      c[i] += half_of(left, k % 2) * half_of(right, k % 2);
    }
  hide();
#endif
}

/// B fragment [16, 8] from a tile in shared memory whose rows are the rows of B: lanes 0 to 15 each give the address of one row's 8 elements
/// (16-byte aligned), the others any such address.
__device__ inline void load_rows_as_b(std::uint32_t (&b)[2], const BFloat16* row) {
#ifdef __CUDACC__
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(b[0]), "=r"(b[1]) : "r"(address) : "memory");
#else
  const int group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  show(row);
  for (int r = 0; r < 2; ++r)
    b[r] = shown_by<BFloat16>(8 * r + 2 * pair)[group].bits | static_cast<std::uint32_t>(shown_by<BFloat16>(8 * r + 2 * pair + 1)[group].bits) << 16;
  hide();
#endif
}

}  // namespace thinwire::cuda
