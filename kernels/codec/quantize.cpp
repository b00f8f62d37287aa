// Uniform quantisation with one scale per hidden channel, over all tokens of the message; Bian et al.
// (arXiv 2301.02654) as in papers/activation_compression.md section 2.2, and AQ-SGD's packing (section 2.6).
// X [rows, h], bits B in 1..8, half = 2^(B-1):
//   scale[c] = half(max_rows |x[:, c]|)            (norm=l2: half(2 sqrt(mean x^2)))
//   y        = round_half_even(x / half(scale + 1e-6) * half), clipped to [-half, half - 1];  code = y + half
//   decoded  = (code - half) / half * scale        (f32; the released form rounds to f16 after every step)
// Payload, no header (its size follows from the shape and is checked):
//   scales f16 [h], then the codes.
//   packing=chunk:     h in 8/B consecutive chunks of ceil(h / (8/B)) columns; byte i of a row holds column i
//   of every
//                      chunk, the first chunk in the highest bits. Columns missing in the last chunk have
//                      code half.
//   packing=neighbour: one bit stream over the flattened message, first code in the highest bits, last byte
//                      filled with zero bits.
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/half.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/wire_values.h"
#include "kernels/convert.h"
#include "kernels/simd/magnitude.h"
#include "kernels/simd/uniform_codes.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches
constexpr float epsilon = 1e-6f;

/// Eight codes of `bits` bits, one per byte of `codes` (first in the lowest address), as the lowest 8 * bits
/// bits of the result, first code highest: neighbours are joined three times, pairs of 1, 2 and 4 codes.
std::uint64_t join_codes(const std::uint8_t* codes, int bits) {
  std::uint64_t v = 0;
  std::memcpy(&v, codes, 8);
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
  v = (v & 0x00ff00ff00ff00ffull) | (v & 0xff00ff00ff00ff00ull) >> (8 - bits);
  v = (v & 0x0000ffff0000ffffull) | (v & 0xffff0000ffff0000ull) >> (16 - 2 * bits);
  return (v & 0x00000000ffffffffull) | (v & 0xffffffff00000000ull) >> (32 - 4 * bits);
}
/// The inverse of join_codes.
void split_codes(std::uint64_t v, int bits, std::uint8_t* codes) {
  const auto low = [](int n) { return (std::uint64_t{1} << n) - 1; };
  v = (v & low(4 * bits)) | (v & ~low(4 * bits)) << (32 - 4 * bits);
  const std::uint64_t two = low(2 * bits) * 0x0000000100000001ull;
  v = (v & two) | (v & ~two) << (16 - 2 * bits);
  const std::uint64_t one = low(bits) * 0x0001000100010001ull;
  v = (v & one) | (v & ~one) << (8 - bits);
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
  std::memcpy(codes, &v, 8);
}

/// f64 to f16, rounded once: the f32 between is truncated with a sticky last bit, so it is no tie that x is
/// not.
Half half_of(double x) {
  float f = static_cast<float>(x);
  if (static_cast<double>(f) > x) f = std::nextafter(f, 0.0f);
  if (static_cast<double>(f) != x) f = std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) | 1u);
  return to_half(f);
}

struct QuantizeOptions {
  int bits = 8;
  bool neighbour = false;
  bool l2 = false;
  bool half_arithmetic = false;  // the released form
};

class Quantize final : public Codec {
 public:
  explicit Quantize(QuantizeOptions options)
      : options_(options), half_(static_cast<float>(1 << (options.bits - 1))) {}

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(2 * shape.columns()) + static_cast<std::size_t>(code_bytes(shape));
  }

  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const Shape& shape = x.shape();
    TW_ASSERT(payload.size() >= max_payload_bytes(shape));
    const auto columns = static_cast<std::size_t>(shape.columns());
    std::uint16_t* scales = scale_bits_.as<std::uint16_t>(columns);
    make_scales(x, key, scales);
    // The divisor is an f16 sum: the epsilon vanishes for scales from 2^-8 on (section 2.2).
    float* divisor = column_.as<float>(columns);
    for (std::size_t c = 0; c < columns; ++c) divisor[c] = round_to_half(to_float(Half{scales[c]}) + epsilon);
    if (columns > 0) std::memcpy(payload.data(), scales, 2 * columns);
    auto* codes = reinterpret_cast<std::uint8_t*>(payload.data() + 2 * columns);
    if (options_.neighbour)
      write_neighbours(x, divisor, codes);
    else
      write_chunks(x, divisor, codes);
    return max_payload_bytes(shape);
  }

  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, true);
  }

 private:
  int chunks() const { return options_.neighbour ? 1 : 8 / options_.bits; }
  std::int64_t chunk_width(const Shape& shape) const { return (shape.columns() + chunks() - 1) / chunks(); }
  std::int64_t code_bytes(const Shape& shape) const {
    return options_.neighbour ? (shape.elements() * options_.bits + 7) / 8
                              : shape.rows() * chunk_width(shape);
  }

  // The scales as f16 bits; the pass over x also finds NaN and infinity.
  void make_scales(ConstTensorView x, const MessageKey& key, std::uint16_t* scales) {
    const float* values = x.as<float>().data();
    const auto columns = static_cast<std::size_t>(x.shape().columns());
    const std::int64_t rows = x.shape().rows();
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t stride = (columns + 15) / 16 * 16;
    std::uint32_t* maxima = maxima_.as<std::uint32_t>(threads * stride);
    std::memset(maxima, 0, threads * stride * sizeof(std::uint32_t));
    double* squares = options_.l2 ? squares_.as<double>(threads * stride) : nullptr;
    if (squares != nullptr) std::memset(squares, 0, threads * stride * sizeof(double));
    const std::int64_t grain =
        std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, x.shape().columns()));
    parallel_ranges(rows, grain, 4, [&](std::int64_t begin, std::int64_t end, int thread) {
      const std::size_t own = static_cast<std::size_t>(thread) * stride;
      const float* first = values + static_cast<std::size_t>(begin) * columns;
      simd::column_maximum(first, static_cast<std::size_t>(end - begin), columns, columns, maxima + own);
      if (squares == nullptr) return;
      for (std::int64_t r = 0; r < end - begin; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
          const double v = first[static_cast<std::size_t>(r) * columns + c];
          squares[own + c] += v * v;
        }
    });
    for (std::size_t c = 0; c < columns; ++c) {
      std::uint32_t bits = 0;
      double square = 0;
      for (std::size_t t = 0; t < threads; ++t) {
        bits = std::max(bits, maxima[t * stride + c]);
        if (squares != nullptr) square += squares[t * stride + c];
      }
      if (bits >= simd::non_finite_bits) check_finite(x, text_of(key));
      const double scale = options_.l2
                               ? 2 * std::sqrt(square / static_cast<double>(std::max<std::int64_t>(1, rows)))
                               : static_cast<double>(std::bit_cast<float>(bits));
      scales[c] = half_of(scale).bits;
      if (scales[c] >= 0x7c00)
        throw RuntimeFailure("quantize: the scale of column " + std::to_string(c) + " of " + text_of(key) +
                             " is " + std::to_string(scale) + ", beyond f16 (65504); scale the tensor");
    }
  }

  // Calls row(r, values, divisor) for rows [begin, end). The released form divides in f16, so it passes
  // rounded quotients and ones instead.
  template <typename Row>
  void for_rows(const float* x, const float* divisor, std::size_t columns, std::int64_t begin,
                std::int64_t end, int thread, const Row& row) {
    if (!options_.half_arithmetic) {
      for (std::int64_t r = begin; r < end; ++r) row(r, x + static_cast<std::size_t>(r) * columns, divisor);
      return;
    }
    RowScratch& scratch = rows_[static_cast<std::size_t>(thread)];
    const std::span<float> quotient(scratch.values.as<float>(columns), columns);
    const std::span<Half> rounded(scratch.halves.as<Half>(columns), columns);
    const std::span<float> ones(scratch.ones.as<float>(columns), columns);
    for (float& one : ones) one = 1;
    for (std::int64_t r = begin; r < end; ++r) {
      convert(std::span<const float>(x + static_cast<std::size_t>(r) * columns, columns), rounded);
      convert(std::span<const Half>(rounded), quotient);
      for (std::size_t c = 0; c < columns; ++c) quotient[c] /= divisor[c];
      convert(std::span<const float>(quotient), rounded);
      convert(std::span<const Half>(rounded), quotient);
      row(r, quotient.data(), ones.data());
    }
  }

  void write_chunks(ConstTensorView x, const float* divisor, std::uint8_t* codes) {
    const auto columns = static_cast<std::size_t>(x.shape().columns());
    const auto width = static_cast<std::size_t>(chunk_width(x.shape()));
    over_rows(x.shape(), [&](std::int64_t begin, std::int64_t end, int thread) {
      for_rows(x.as<float>().data(), divisor, columns, begin, end, thread,
               [&](std::int64_t r, const float* row, const float* by) {
                 simd::quantize_row(row, by, columns, static_cast<std::size_t>(chunks()), options_.bits,
                                    codes + static_cast<std::size_t>(r) * width);
               });
    });
  }

  // The bit stream runs over the ends of rows: threads take blocks of rows whose first code starts a byte.
  void write_neighbours(ConstTensorView x, const float* divisor, std::uint8_t* codes) {
    const auto columns = static_cast<std::size_t>(x.shape().columns());
    over_rows(x.shape(), [&](std::int64_t begin, std::int64_t end, int thread) {
      auto& pending = rows_[static_cast<std::size_t>(thread)].codes;
      std::uint8_t* waiting = pending.as<std::uint8_t>(columns + 16);
      std::size_t count = 0;
      std::uint8_t* to = codes + begin * static_cast<std::int64_t>(columns) * options_.bits / 8;
      for_rows(x.as<float>().data(), divisor, columns, begin, end, thread,
               [&](std::int64_t, const float* row, const float* by) {
                 simd::quantize_row(row, by, columns, 1, options_.bits, waiting + count);
                 count += columns;
                 std::size_t done = 0;
                 for (; done + 8 <= count; done += 8)
                   to = put(to, join_codes(waiting + done, options_.bits), options_.bits);
                 std::memmove(waiting, waiting + done, count - done);
                 count -= done;
               });
      if (count == 0) return;
      std::memset(waiting + count, 0, 8 - count);
      put(to, join_codes(waiting, options_.bits), (static_cast<int>(count) * options_.bits + 7) / 8);
    });
  }
  // The highest `bytes` of 8 * bits bits.
  std::uint8_t* put(std::uint8_t* to, std::uint64_t joined, int bytes) const {
    for (int i = 0; i < bytes; ++i) *to++ = static_cast<std::uint8_t>(joined >> 8 * (options_.bits - 1 - i));
    return to;
  }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    const Shape& shape = out.shape();
    check_payload_size(payload.size(), max_payload_bytes(shape), "quantize", shape, key);
    const auto columns = static_cast<std::size_t>(shape.columns());
    float* step = column_.as<float>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      Half scale{};
      std::memcpy(&scale.bits, payload.data() + 2 * c, 2);
      if (scale.bits >= 0x7c00)
        throw CorruptData("quantize: the scale of column " + std::to_string(c) + " of " + text_of(key) +
                          " is negative, infinite or NaN: the payload is damaged");
      step[c] = to_float(scale) / half_;  // exact
    }
    const auto* codes = reinterpret_cast<const std::uint8_t*>(payload.data() + 2 * columns);
    float* values = out.as<float>().data();
    const bool stream = out.bytes() >= stream_from_bytes && !options_.half_arithmetic;
    const auto row_bytes = static_cast<std::size_t>(chunk_width(shape));
    over_rows(shape, [&](std::int64_t begin, std::int64_t end, int thread) {
      std::size_t held = 0;
      const std::uint8_t* from = codes + begin * static_cast<std::int64_t>(columns) * options_.bits / 8;
      RowScratch& scratch = rows_[static_cast<std::size_t>(thread)];
      for (std::int64_t r = begin; r < end; ++r) {
        const std::uint8_t* row = codes + static_cast<std::size_t>(r) * row_bytes;
        if (options_.neighbour) {
          row = next_row(scratch, from, codes + code_bytes(shape), columns, held);
        }
        float* target = values + static_cast<std::size_t>(r) * columns;
        if (!options_.half_arithmetic) {
          simd::dequantize_row(row, step, columns, static_cast<std::size_t>(chunks()), options_.bits, target,
                               add, stream);
          continue;
        }
        const std::span<float> product(scratch.values.as<float>(columns), columns);
        const std::span<Half> rounded(scratch.halves.as<Half>(columns), columns);
        simd::dequantize_row(row, step, columns, static_cast<std::size_t>(chunks()), options_.bits,
                             product.data(), false, false);
        convert(std::span<const float>(product),
                rounded);  // the quotient is exact in f16, so only the product rounds
        convert(std::span<const Half>(rounded), product);
        if (add)
          accumulate(std::span<float>(target, columns), std::span<const float>(product));
        else
          std::memcpy(target, product.data(), columns * sizeof(float));
      }
      if (stream) simd::stream_fence();
    });
  }

  struct RowScratch {
    Buffer values, halves, ones, codes;
  };
  // The codes of the next row of the bit stream, one per byte. `held` codes of it were split earlier.
  const std::uint8_t* next_row(RowScratch& scratch, const std::uint8_t*& from, const std::uint8_t* end,
                               std::size_t columns, std::size_t& held) {
    // Twice a row: the codes in use at the front, what was split too far behind them.
    std::uint8_t* codes = scratch.codes.as<std::uint8_t>(columns + 16);
    std::uint8_t spare[8];
    std::memcpy(spare, codes + columns, held);
    std::memcpy(codes, spare, held);
    while (held < columns) {
      std::uint64_t joined = 0;
      for (int i = 0; i < options_.bits; ++i, ++from) joined = joined << 8 | (from < end ? *from : 0u);
      split_codes(joined, options_.bits, codes + held);
      held += 8;
    }
    held -= columns;
    return codes;
  }

  template <typename Body>
  void over_rows(const Shape& shape, const Body& body) {
    if (rows_.size() < static_cast<std::size_t>(omp_get_max_threads()))
      rows_.resize(static_cast<std::size_t>(omp_get_max_threads()));
    const std::int64_t grain =
        std::max<std::int64_t>(8, default_grain / std::max<std::int64_t>(1, shape.columns()));
    parallel_ranges(shape.rows(), grain, 8, body);
  }

  QuantizeOptions options_;
  float half_;
  CodecTraits traits_;
  Buffer scale_bits_, column_, maxima_, squares_;
  std::vector<RowScratch> rows_;
};

std::unique_ptr<Codec> make_quantize(const Parameters& p, Form form) {
  QuantizeOptions options;
  options.bits = static_cast<int>(p.integer("bits"));
  const bool whole = options.bits == 2 || options.bits == 4 || options.bits == 8;
  const std::string& packing = p.choice("packing");
  if (packing == "chunk" && !whole)
    throw UsageError("'quantize:bits=" + std::to_string(options.bits) +
                     ",packing=chunk': chunk packing needs bits 2, 4 or 8; use packing=neighbour");
  options.neighbour = packing == "neighbour" || !whole;
  options.l2 = p.choice("norm") == "l2";
  options.half_arithmetic = form == Form::released;
  return std::make_unique<Quantize>(options);
}

const bool registered =
    register_codec({.name = "quantize",
                    .summary = "uniform codes of 1 to 8 bits with one f16 scale per channel",
                    .source = "Bian et al. (arXiv 2301.02654) as released in MCBench; packing=neighbour: "
                              "AQ-SGD (arXiv 2206.01299)",
                    .parameters = {{.name = "bits",
                                    .kind = ParameterSpec::Kind::integer,
                                    .default_value = "8",
                                    .minimum = 1,
                                    .maximum = 8,
                                    .help = "bits per element"},
                                   {.name = "packing",
                                    .kind = ParameterSpec::Kind::choice,
                                    .default_value = "auto",
                                    .choices = {"auto", "chunk", "neighbour"},
                                    .help = "order of the codes in a byte; auto: chunk for 2, 4 and 8 bits"},
                                   {.name = "norm",
                                    .kind = ParameterSpec::Kind::choice,
                                    .default_value = "max",
                                    .choices = {"max", "l2"},
                                    .help = "scale of a channel: largest magnitude, or 2 sqrt(mean square)"}},
                    .has_released_form = true,
                    .make = make_quantize});

}  // namespace
}  // namespace thinwire
