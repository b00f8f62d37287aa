// CUDA implementation of blockwise8.cpp: the same bytes, on a stream. The code book and the table by which its nearest value is found are the host's.
#include "kernels/codec/codecs/block/block_kernels.cuh"
#include "kernels/simd/codes/book_codes.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_blockwise8_encode, int(const float* x, BlockCut cut, const std::uint32_t* book, const std::uint32_t* cells, std::uint32_t first_cell,
                                                         std::uint32_t zero, std::uint32_t negatives, int released, void* payload, std::uint32_t* status, int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_blockwise8_decode, int(const void* payload, BlockCut cut, const std::uint32_t* book, int released, float* out, int adds, std::uint32_t* status,
                                                         int ordinal, void* stream));

namespace {

constexpr int book_size = 256, head_words = 4, low_bits = simd::MagnitudeCells::low_bits;
constexpr std::uint32_t one_bits = 0x3f800000;

/// Words of the released head: the number of blocks and 256, both int64.
__device__ inline std::uint32_t head_word(int number, std::int64_t blocks) {
  return number < 2 ? static_cast<std::uint32_t>(static_cast<std::uint64_t>(blocks) >> 32 * number) : number == 2 ? static_cast<std::uint32_t>(book_size) : 0u;
}

/// kReleased: the book comes with the payload, at any address.
template <bool kReleased>
struct Blockwise8Format {
  using Found = Magnitude;
  struct Scale {
    float largest, divisor;
  };
  static constexpr int bits = 8;

  BlockCut cut;
  const std::uint8_t* book;
  const std::uint32_t* cells;  ///< kernels/simd/codes/book_codes.h
  std::uint32_t first_cell, zero, negatives;

  __device__ bool low_first() const { return true; }

  __device__ Scale scale_of(const Magnitude& found, const BlockPlace& place, std::uint8_t* payload, bool writes, std::uint32_t*) const {
    if (writes) store_u32(payload + cut.scale_at(place.scale), found.bits);
    return {0, found.bits > 0 ? float_of(found.bits) : 1.0f};
  }
  __device__ Scale read_scale(const std::uint8_t* payload, const BlockPlace& place, std::uint32_t* status) const {
    const std::uint32_t found = load_u32(payload + cut.scale_at(place.scale));
    if (found >= 0x7f800000u && found != 0x80000000u) atomicOr(status, device_status_damaged);
    return {float_of(found), 0};
  }

  __device__ void codes_of(const float (&v)[eight], const Scale& scale, std::int64_t, std::uint32_t (&codes)[eight]) const {
    const std::uint32_t least = first_cell << low_bits, low = (1u << low_bits) - 1;
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) {
      const float y = divide(v[j], scale.divisor);
      std::uint32_t size = bits_of(y) & 0x7fffffffu;
      size = size < least ? least : size > one_bits ? one_bits : size;  // beyond 1 is nothing but what was reported already
      const std::uint32_t m = (cells[(size >> low_bits) - first_cell] + (size & low)) >> low_bits;
      codes[j] = y < 0 ? zero - (m < negatives ? m : negatives) : zero + m;
    }
  }
  __device__ bool values_of(const std::uint32_t (&codes)[eight], const Scale& scale, float (&v)[eight]) const {
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) {
      const std::uint8_t* const at = book + sizeof(float) * codes[j];
      v[j] = multiply(kReleased ? float_of(load_u32(at)) : *reinterpret_cast<const float*>(at), scale.largest);
    }
    return true;
  }
};

__global__ void __launch_bounds__(book_size) write_book(const std::uint32_t* __restrict__ book, BlockCut cut, std::uint8_t* payload) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < head_words) store_u32(payload + 4 * i, head_word(i, cut.blocks()));
  store_u32(payload + cut.scale_at(cut.blocks()) + 4 * i, book[i]);
}

__global__ void __launch_bounds__(book_size) check_book(const std::uint8_t* payload, BlockCut cut, std::uint32_t* status) {
  const int i = static_cast<int>(threadIdx.x);
  const bool head_good = i >= head_words || load_u32(payload + 4 * i) == head_word(i, cut.blocks());
  const bool good = (load_u32(payload + cut.scale_at(cut.blocks()) + 4 * i) & 0x7fffffffu) <= one_bits;
  if (!head_good || !good) atomicOr(status, device_status_damaged);
}

}  // namespace

int thinwire_cuda_blockwise8_encode(const float* x, BlockCut cut, const std::uint32_t* book, const std::uint32_t* cells, std::uint32_t first_cell, std::uint32_t zero,
                                    std::uint32_t negatives, int released, void* payload, std::uint32_t* status, int ordinal, void* stream) {
  auto* const bytes = static_cast<std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    if (released != 0)
      if (const auto e = launch(write_book, 1, book_size, stream, book, cut, bytes); e != cudaSuccess) return e;
    return queue_encode_blocks(x, cut, Blockwise8Format<false>{cut, nullptr, cells, first_cell, zero, negatives}, bytes, status, stream);
  });
}

int thinwire_cuda_blockwise8_decode(const void* payload, BlockCut cut, const std::uint32_t* book, int released, float* out, int adds, std::uint32_t* status, int ordinal,
                                    void* stream) {
  const auto* const bytes = static_cast<const std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    if (released == 0)
      return queue_decode_blocks(bytes, cut, Blockwise8Format<false>{cut, reinterpret_cast<const std::uint8_t*>(book), nullptr, 0, 0, 0}, adds != 0, out, status, stream);
    if (const auto e = launch(check_book, 1, book_size, stream, bytes, cut, status); e != cudaSuccess) return e;
    return queue_decode_blocks(bytes, cut, Blockwise8Format<true>{cut, bytes + cut.scale_at(cut.blocks()), nullptr, 0, 0, 0}, adds != 0, out, status, stream);
  });
}
