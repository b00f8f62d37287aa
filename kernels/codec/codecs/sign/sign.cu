// CUDA implementation of sign.cpp: the same bytes, on a stream. Sums run in the host's order, so scales are equal to the bit.
#include "kernels/codec/codecs/sign/sign_cut.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_sign_encode, int(const float* x, SignCut cut, SignScale scale, void* payload, double* partials, std::uint32_t* status, int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_sign_decode, int(const void* payload, SignCut cut, float* out, int adds, std::uint32_t* status, int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_sign_counts, int(const void* payload, SignCut cut, int bytes_of_count, void* counts, int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_sign_majority, int(const void* counts, const float* scales, SignCut cut, int bytes_of_count, int voters, float* out, std::uint32_t* status,
                                                     int ordinal, void* stream));

namespace {

constexpr int sign_threads = 256;
constexpr int lanes = 16;  ///< sums of a stripe (kernels/simd/signs.h), a thread each
constexpr int stripes_of_block = sign_threads / lanes;
constexpr int at_once = lanes * lanes;  ///< elements of a stripe between two stores: 16 bits from each lane

/// Bits and sums of stripes. Bound: 4 bytes read per element and 1/8 written; 16 loads in flight per thread.
__global__ void __launch_bounds__(sign_threads) sign_stripes(const float* __restrict__ x, SignCut cut, bool squares, std::uint8_t* __restrict__ payload,
                                                             double* __restrict__ partials) {
  const int lane = static_cast<int>(threadIdx.x % lanes);
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * stripes_of_block + threadIdx.x / lanes;
  const std::int64_t line = number / cut.stripes, from = number % cut.stripes * SignCut::stripe;
  std::int64_t left = line < cut.count ? cut.length_of(line) - from : 0;  // a shorter last line may have fewer stripes
  left = left < SignCut::stripe ? left : SignCut::stripe;
  const float* const values = x + line * cut.length + from;
  const std::int64_t longest = cut.length < SignCut::stripe ? cut.length : SignCut::stripe;
  double sum = 0;
  for (std::int64_t begin = 0; begin < longest; begin += at_once) {  // as often in every stripe: the lanes of a warp vote together
    float v[lanes];
    THINWIRE_UNROLL
    for (int k = 0; k < lanes; ++k) v[k] = begin + k * lanes + lane < left ? values[begin + k * lanes + lane] : 0.0f;
    std::uint32_t own = 0;
    THINWIRE_UNROLL
    for (int k = 0; k < lanes; ++k) {
      const std::uint32_t negatives = __ballot_sync(all_lanes, v[k] < 0 ? 1 : 0) >> (threadIdx.x % 32 / lanes * lanes);
      own = lane == k ? negatives : own;
      const auto term = static_cast<double>(v[k]);
      sum += squares ? term * term : fabs(term);  // a square of f32 is exact: joined with the sum or not, it rounds alike
    }
    const std::int64_t bits = left - (begin + lane * lanes);
    if (bits <= 0) continue;
    std::uint8_t* const to = payload + cut.bits_at(line) + (from + begin + lane * lanes) / 8;
    to[0] = static_cast<std::uint8_t>(own);
    if (bits > 8) to[1] = static_cast<std::uint8_t>(own >> 8);
  }
  THINWIRE_UNROLL
  for (int half = lanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(all_lanes, sum, half);
  if (lane == 0 && left > 0) partials[number] = sum;
}

/// Scales from the sums of stripes: a thread per line where it is one stripe, else a block.
__global__ void __launch_bounds__(SignCut::sums) sign_scales(const double* __restrict__ partials, SignCut cut, SignScale scale, std::uint8_t* payload, std::uint32_t* status) {
  __shared__ double sums[SignCut::sums];
  std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * SignCut::sums + threadIdx.x;
  double sum = 0;
  if (cut.stripes == 1) {
    if (line >= cut.count) return;
    sum = partials[line];
  } else {
    line = blockIdx.x;
    for (std::int64_t s = threadIdx.x; s * SignCut::stripe < cut.length_of(line); s += SignCut::sums) sum += partials[line * cut.stripes + s];
    sums[threadIdx.x] = sum;
    for (unsigned half = SignCut::sums / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x != 0) return;
    sum = sums[0];
  }
  if (!(sum - sum == 0)) atomicOr(status, device_status_non_finite);
  if (scale == SignScale::none) return;
  const double mean = sum / static_cast<double>(cut.length_of(line));
  store_u32(payload + 4 * line, bits_of(static_cast<float>(scale == SignScale::l2 ? sqrt(mean) : mean)));
}

/// A thread per byte of signs. Bound: 1/8 byte read and 4 written per element; adding reads 4 more.
template <bool kVectors>
__global__ void __launch_bounds__(sign_threads) sign_decode(const std::uint8_t* __restrict__ payload, SignCut cut, bool adds, float* __restrict__ out, std::uint32_t* status) {
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * sign_threads + threadIdx.x, bytes_of_line = (cut.length + 7) / 8;
  const std::int64_t line = number / bytes_of_line, from = number % bytes_of_line * 8;
  const std::int64_t left = line < cut.count ? cut.length_of(line) - from : 0;
  if (left <= 0) return;
  const std::uint32_t scale = cut.scales > 0 ? load_u32(payload + 4 * line) : 0x3f800000u;
  if (scale >= 0x7f800000u && scale != 0x80000000u) atomicOr(status, device_status_damaged);  // no finite magnitude
  const std::uint32_t bits = payload[cut.bits_at(line) + from / 8];
  float* const to = out + line * cut.length + from;
  float v[8] = {};
  if (adds) {
    if (kVectors && left >= 8) {
      load_pack<8>(to, v);
    } else {
      THINWIRE_UNROLL
      for (int j = 0; j < 8; ++j) v[j] = j < left ? to[j] : 0.0f;
    }
  }
  THINWIRE_UNROLL
  for (int j = 0; j < 8; ++j) {
    const float value = float_of(scale ^ ((bits >> j & 1u) << 31));
    v[j] = adds ? add(v[j], value) : value;
  }
  if (kVectors && left >= 8) {
    store_pack<8>(to, v);
  } else {
    THINWIRE_UNROLL
    for (int j = 0; j < 8; ++j)
      if (j < left) to[j] = v[j];
  }
}

/// Signs of a payload as numbers, for sums over ranks (sign_vote.cpp). Bound: a byte or two written per element.
template <typename Count>
struct Negatives {
  static constexpr int width = 1;
  const std::uint8_t* payload;
  SignCut cut;
  Count* counts;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::int64_t line = i / cut.length, at = i - line * cut.length;
    counts[i] = static_cast<Count>(payload[cut.bits_at(line) + at / 8] >> at % 8 & 1);
  }
};

/// out[i] = -scale where more than half of the voters are negative; without scales that is their number. Bound: a count read and 4 bytes written per element.
template <typename Count>
struct Majority {
  static constexpr int width = 1;
  const Count* counts;
  const float* scales;
  SignCut cut;
  int voters;
  float* out;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const float scale = cut.scales > 0 ? scales[i / cut.length] : static_cast<float>(voters);
    if (!(scale >= 0) || !finite_bits(bits_of(scale))) atomicOr(status, device_status_damaged);
    out[i] = counts[i] > voters / 2 ? -scale : scale;
  }
};

}  // namespace

int thinwire_cuda_sign_counts(const void* payload, SignCut cut, int bytes_of_count, void* counts, int ordinal, void* stream) {
  const auto* const bytes = static_cast<const std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    if (bytes_of_count == 1) return map(Negatives<std::uint8_t>{bytes, cut, static_cast<std::uint8_t*>(counts)}, cut.elements, false, stream);
    return map(Negatives<std::uint16_t>{bytes, cut, static_cast<std::uint16_t*>(counts)}, cut.elements, false, stream);
  });
}

int thinwire_cuda_sign_majority(const void* counts, const float* scales, SignCut cut, int bytes_of_count, int voters, float* out, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    if (bytes_of_count == 1) return map(Majority<std::uint8_t>{static_cast<const std::uint8_t*>(counts), scales, cut, voters, out, status}, cut.elements, false, stream);
    return map(Majority<std::uint16_t>{static_cast<const std::uint16_t*>(counts), scales, cut, voters, out, status}, cut.elements, false, stream);
  });
}

int thinwire_cuda_sign_encode(const float* x, SignCut cut, SignScale scale, void* payload, double* partials, std::uint32_t* status, int ordinal, void* stream) {
  auto* const bytes = static_cast<std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    if (const auto e = launch(sign_stripes, ceil_divide(cut.count * cut.stripes, stripes_of_block), sign_threads, stream, x, cut, scale == SignScale::l2, bytes, partials);
        e != cudaSuccess)
      return e;
    return launch(sign_scales, cut.stripes == 1 ? ceil_divide(cut.count, SignCut::sums) : cut.count, SignCut::sums, stream, partials, cut, scale, bytes, status);
  });
}

int thinwire_cuda_sign_decode(const void* payload, SignCut cut, float* out, int adds, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    const auto kernel = aligned(out, 16) && (cut.count <= 1 || cut.length % 4 == 0) ? sign_decode<true> : sign_decode<false>;
    return launch(kernel, ceil_divide(cut.count * ((cut.length + 7) / 8), sign_threads), sign_threads, stream, static_cast<const std::uint8_t*>(payload), cut, adds != 0, out, status);
  });
}
