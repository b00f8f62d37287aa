// The exponent window: lossless, for bf16 (docs/papers/sharded_compression.md, "Exponent window"; derived there, ZipCCL's own code is not public). Of 2048 neighbours of
// the flattened tensor, with e the exponent field:
//   window=top   top = largest e - 1, at least 0
//   window=best  top = that for which most e are in top - 6 .. top; of equally good ones the highest
//   code = top - e where that is 0 .. 6, else 7 and e follows as a byte (an escape)
// Every bit pattern comes back, NaN, infinity and subnormal numbers included. With p the share of escapes 11 + 8p + 8/2048 bits per value: normal numbers 1.43 times
// smaller than bf16. f32 keeps its lower 16 bits as they are, 1.18 times smaller; an f32 tensor that holds bf16 numbers has none and travels as those.
// Payload: bytes per value, 2 or 4; top of every block; codes, per block three planes of ceil(n / 8) bytes, bit i of plane p = bit p of the code of value i, lowest first;
// sign (highest bit) and upper 7 mantissa bits of every value; lower 16 bits of every value (4 bytes per value); escapes, in order. Codes say how many escapes a block
// has, so blocks are decoded apart from one another without a table of sizes.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/device/device.h"
#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/registry.h"
#include "kernels/convert.h"
#include "kernels/simd/exponent_bytes.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t block = 2048;
constexpr std::int64_t grain = default_grain / block;
constexpr int window = 7;  ///< exponents without escape

/// Codes of a block as words, with one to read behind them.
using Planes = std::array<std::uint64_t, 3 * block / 64 + 1>;
using Bytes = std::array<std::uint8_t, block>;

std::uint64_t escapes_of(const Planes& planes, std::size_t word) {
  constexpr std::size_t plane = block / 64;
  return planes[word] & planes[plane + word] & planes[2 * plane + word];
}

/// Where the parts of a payload lie.
struct Parts {
  Parts(std::int64_t n, std::size_t bytes_per_value)
      : elements(n), blocks((n + block - 1) / block), tops(1), codes(tops + static_cast<std::size_t>(blocks)) {
    const std::int64_t last = n - std::max<std::int64_t>(0, blocks - 1) * block;
    rest = codes + static_cast<std::size_t>(3 * (std::max<std::int64_t>(0, blocks - 1) * block / 8 + (last + 7) / 8));
    low = rest + static_cast<std::size_t>(n);
    escapes = low + static_cast<std::size_t>(n) * (bytes_per_value - 2);
  }
  std::int64_t elements, blocks;
  std::size_t tops, codes, rest, low, escapes;

  std::size_t count(std::int64_t b) const { return static_cast<std::size_t>(std::min(block, elements - b * block)); }
  std::size_t codes_at(std::int64_t b) const { return codes + static_cast<std::size_t>(b) * 3 * block / 8; }
};

/// From the largest exponent downwards, until the values that are left cannot fill a better window. Exponents of a block are few: counting them one by one is faster than
/// a histogram.
std::uint8_t best_top(const std::uint8_t* exponents, std::size_t n, std::uint8_t largest) {
  std::array<std::size_t, window> counts{};    // of the exponents from top down, each at its rest by `window`
  std::size_t inside = 0, most = 0, left = n;  // values in the window, in the best so far, at or below top
  int counted = largest + 1;                   // exponents from here up
  std::uint8_t best = largest;
  for (int top = largest; top >= 0 && left > most; --top) {
    while (counted > std::max(0, top - window + 1)) {
      --counted;
      inside += counts[static_cast<std::size_t>(counted % window)] = simd::count_bytes(exponents, n, static_cast<std::uint8_t>(counted));
    }
    if (inside > most) most = inside, best = static_cast<std::uint8_t>(top);
    const std::size_t of_top = counts[static_cast<std::size_t>(top % window)];
    left -= of_top, inside -= of_top;
  }
  return best;
}

class Lossless final : public Codec {
 public:
  explicit Lossless(bool best) : best_(best) {
    traits_.lossless = traits_.takes_bf16 = traits_.flat = true;
    traits_.fixed_size = false;
    traits_.encode_goal = traits_.decode_goal = 0.15;
  }

  const CodecTraits& traits() const override { return traits_; }
  /// All lower halves, and every value an escape.
  std::size_t max_payload_bytes(const Shape& shape) const override { return Parts(shape.elements(), sizeof(float)).escapes + static_cast<std::size_t>(shape.elements()); }

  std::size_t write_payload(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    TW_ASSERT(payload.size() >= max_payload_bytes(x.shape()));
    const bool half = x.dtype() == DType::bf16;
    const Parts parts(x.elements(), half ? 2 : 4);
    std::uint32_t* const counts = counts_.as<std::uint32_t>(static_cast<std::size_t>(parts.blocks));
    std::uint16_t low_bits = 0;
    parallel_ranges(parts.blocks, grain, 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::uint16_t seen = 0;
      for (std::int64_t b = begin; b < end; ++b) counts[b] = write_block(x, parts, b, payload.data(), seen);
#pragma omp atomic
      low_bits |= seen;
    });
    // Blocks have left their escapes where all of them would begin; now they are moved together, over lower halves that are all zero.
    const std::size_t width = low_bits == 0 ? 2 : 4;
    payload[0] = static_cast<std::byte>(width);
    std::size_t end = Parts(x.elements(), width).escapes;
    for (std::int64_t b = 0; b < parts.blocks; end += counts[b], ++b) std::memmove(payload.data() + end, payload.data() + parts.escapes + static_cast<std::size_t>(b * block), counts[b]);
    return end;
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

 private:
  /// Returns the number of escapes; `seen` gets the lower halves' bits.
  std::uint32_t write_block(ConstTensorView x, const Parts& parts, std::int64_t b, std::byte* payload, std::uint16_t& seen) const {
    const auto first = static_cast<std::size_t>(b * block), n = parts.count(b);
    Bytes exponents;
    auto* const rest = reinterpret_cast<std::uint8_t*>(payload + parts.rest + first);
    if (x.dtype() == DType::bf16)
      simd::take_apart(reinterpret_cast<const std::uint16_t*>(x.data()) + first, n, exponents.data(), rest);
    else
      seen = static_cast<std::uint16_t>(seen | simd::take_apart(x.as<float>().data() + first, n, exponents.data(), rest, payload + parts.low + 2 * first));
    const std::uint8_t largest = simd::largest_byte(exponents.data(), n);
    const std::uint8_t top = best_ ? best_top(exponents.data(), n, largest) : static_cast<std::uint8_t>(std::max<int>(1, largest) - 1);
    payload[parts.tops + static_cast<std::size_t>(b)] = static_cast<std::byte>(top);
    std::fill(exponents.begin() + static_cast<std::ptrdiff_t>(n), exponents.end(), top);
    Planes planes;
    simd::window_codes(exponents.data(), block, top, planes.data());
    std::byte* const codes = payload + parts.codes_at(b);
    for (std::size_t p = 0; p < 3; ++p) std::memcpy(codes + p * ((n + 7) / 8), planes.data() + p * block / 64, (n + 7) / 8);
    std::byte* const to = payload + parts.escapes + first;
    std::uint32_t count = 0;
    for (std::size_t word = 0; word < block / 64; ++word)
      for (std::uint64_t left = escapes_of(planes, word); left != 0; left &= left - 1) to[count++] = std::byte{exponents[64 * word + static_cast<std::size_t>(std::countr_zero(left))]};
    return count;
  }

  static void read_planes(const std::byte* codes, std::size_t n, Planes& planes) {
    planes.fill(0);
    for (std::size_t p = 0; p < 3; ++p) std::memcpy(planes.data() + p * block / 64, codes + p * ((n + 7) / 8), (n + 7) / 8);
  }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    const auto damaged = [&](const std::string& what) { throw CorruptData("lossless: " + what + " of " + text_of(key) + ": the payload is damaged"); };
    const int width = payload.empty() ? 0 : static_cast<int>(payload[0]);
    if (width != 2 && width != 4) damaged("no bytes per value that exist");
    const Parts parts(out.elements(), static_cast<std::size_t>(width));
    if (payload.size() < parts.escapes) damaged(std::to_string(payload.size()) + " bytes are too few for the " + std::to_string(out.elements()) + " values");
    // Where the escapes of every block begin.
    std::size_t* const begins = begins_.as<std::size_t>(static_cast<std::size_t>(parts.blocks) + 1);
    parallel_ranges(parts.blocks, grain, 1, [&](std::int64_t begin, std::int64_t end, int) {
      Planes planes;
      for (std::int64_t b = begin; b < end; ++b) {
        read_planes(payload.data() + parts.codes_at(b), parts.count(b), planes);
        begins[b + 1] = 0;
        for (std::size_t word = 0; word < block / 64; ++word) begins[b + 1] += static_cast<std::size_t>(std::popcount(escapes_of(planes, word)));
      }
    });
    begins[0] = parts.escapes;
    for (std::int64_t b = 0; b < parts.blocks; ++b) begins[b + 1] += begins[b];
    if (begins[parts.blocks] != payload.size()) damaged(std::to_string(payload.size()) + " bytes do not end with the last of its escapes");
    parallel_ranges(parts.blocks, grain, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t b = begin; b < end; ++b) read_block(payload.data(), parts, width, b, begins[b], out, add);
    });
  }

  static void read_block(const std::byte* payload, const Parts& parts, int width, std::int64_t b, std::size_t escapes, TensorView out, bool add) {
    const auto first = static_cast<std::size_t>(b * block), n = parts.count(b);
    Planes planes;
    read_planes(payload + parts.codes_at(b), n, planes);
    Bytes exponents;
    simd::window_exponents(planes.data(), block, static_cast<std::uint8_t>(payload[parts.tops + static_cast<std::size_t>(b)]), exponents.data());
    const std::byte* from = payload + escapes;
    for (std::size_t word = 0; word < block / 64; ++word)
      for (std::uint64_t left = escapes_of(planes, word); left != 0; left &= left - 1) exponents[64 * word + static_cast<std::size_t>(std::countr_zero(left))] = static_cast<std::uint8_t>(*from++);
    const auto* const rest = reinterpret_cast<const std::uint8_t*>(payload + parts.rest + first);
    const std::byte* const low = width == 4 ? payload + parts.low + 2 * first : nullptr;

    std::array<float, block> wide;
    std::array<BFloat16, block> narrow;
    if (out.dtype() == DType::f32) {
      const std::span<float> to = out.as<float>().subspan(first, n), values(wide.data(), n);
      simd::put_together(exponents.data(), rest, low, n, add ? wide.data() : to.data());
      if (add) accumulate(to, std::span<const float>(values));
      return;
    }
    const std::span<BFloat16> to = out.as<BFloat16>().subspan(first, n), values = add ? std::span<BFloat16>(narrow.data(), n) : to;
    if (low == nullptr) {
      simd::put_together(exponents.data(), rest, n, reinterpret_cast<std::uint16_t*>(values.data()));
    } else {  // f32 was sent and bf16 is wanted
      simd::put_together(exponents.data(), rest, low, n, wide.data());
      convert(std::span<const float>(wide.data(), n), values);
    }
    if (add) accumulate(to, std::span<const BFloat16>(values));
  }

  bool best_;
  CodecTraits traits_;
  Buffer counts_, begins_;
};

std::string check_bits(const CodecStack&, ConstTensorView x, std::span<const float> decoded) {
  if (std::memcmp(x.data(), decoded.data(), decoded.size_bytes()) != 0) throw WrongResult("its result has other bits than its input");
  return "bit by bit";
}

const bool registered = register_codec({.name = "lossless",
                                        .summary = "every bit comes back: exponents as 3-bit distances from a block's largest",
                                        .source = "exponent window, after ZipCCL",
                                        .wire = "bytes per value; largest exponent of each block; three planes of exponent codes; sign and mantissa bytes; lower 16 bits of f32; escaped exponents",
                                        .parameters = {{.name = "window",
                                                        .kind = ParameterSpec::Kind::choice,
                                                        .default_value = "best",
                                                        .choices = {"best", "top"},
                                                        .help = "the seven exponents without escape: most of the block's, or those below its largest"}},
                                        .presets = {"window=top"},
                                        .make = [](const Parameters& p, Form) { return std::make_unique<Lossless>(p.choice("window") == "best"); },
                                        .check = check_bits});

}  // namespace
}  // namespace thinwire
