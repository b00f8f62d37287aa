// Uniform quantisation with one scale per hidden channel, over all tokens of the message; Bian et al.
// (arXiv 2301.02654) as in docs/papers/activation_compression.md, "The codecs", and AQ-SGD's packing ("AQ-SGD" there).
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
#include "kernels/codec/codecs/integer/quantize_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/convert.h"
#include "kernels/simd/codes/uniform_codes.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches
constexpr float epsilon = 1e-6f;

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
      : options_(options), half_(static_cast<float>(1 << (options.bits - 1))) {
    traits_.encode_goal = traits_.decode_goal = 0.5;
    traits_.device_goal = 0.85;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(2 * shape.columns()) + static_cast<std::size_t>(code_bytes(shape));
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const Shape& shape = x.shape();
    TW_ASSERT(payload.size() >= max_payload_bytes(shape));
    const auto columns = static_cast<std::size_t>(shape.columns());
    std::uint16_t* scales = scale_bits_.as<std::uint16_t>(columns);
    make_scales(x, key, scales);
    // The divisor is an f16 sum: the epsilon vanishes for scales from 2^-8 on.
    float* divisors = column_.as<float>(2 * columns);
    float* inverses = divisors + columns;
    for (std::size_t c = 0; c < columns; ++c) {
      divisors[c] = round_to_half(to_float(Half{scales[c]}) + epsilon);
      inverses[c] = half_ / divisors[c];
    }
    const Divisor divisor{divisors, inverses};
    if (columns > 0) std::memcpy(payload.data(), scales, 2 * columns);
    auto* codes = reinterpret_cast<std::uint8_t*>(payload.data() + 2 * columns);
    if (options_.neighbour)
      write_neighbours(x, divisor, codes);
    else
      write_chunks(x, divisor, codes);
    return max_payload_bytes(shape);
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
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
        throw NotRepresentable("quantize: the scale of column " + std::to_string(c) + " of " + text_of(key) +
                               " is " + std::to_string(scale) + ", beyond f16 (65504); scale the tensor");
    }
  }

  // Calls row(r, values, divisor, next) for rows [begin, end), the last first: those are still in the caches
  // from the pass over the scales. `next` is a row to be read about 16 KiB later. The released form divides
  // in f16, so it passes rounded quotients and ones instead.
  struct Divisor {
    const float* value;
    const float* inverse;  // 2^(B-1) / value
  };
  template <typename Row>
  void for_rows(const float* x, const Divisor& divisor, std::size_t columns, std::int64_t begin,
                std::int64_t end, int thread, const Row& row) {
    const auto ahead =
        static_cast<std::int64_t>(std::max<std::size_t>(1, 4096 / std::max<std::size_t>(1, columns)));
    RowScratch& scratch = rows_[static_cast<std::size_t>(thread)];
    const bool half = options_.half_arithmetic;
    const std::span<float> quotient(scratch.values.as<float>(half ? columns : 0), half ? columns : 0);
    const std::span<Half> rounded(scratch.halves.as<Half>(quotient.size()), quotient.size());
    const std::span<float> ones(scratch.ones.as<float>(2 * quotient.size()), 2 * quotient.size());
    for (std::size_t c = 0; c < quotient.size(); ++c) ones[c] = 1, ones[columns + c] = half_;
    const Divisor one{ones.data(), ones.data() + quotient.size()};
    for (std::int64_t r = end - 1; r >= begin; --r) {
      const float* values = x + static_cast<std::size_t>(r) * columns;
      if (!half) {
        row(r, values, divisor, x + static_cast<std::size_t>(std::max(begin, r - ahead)) * columns);
        continue;
      }
      convert(std::span<const float>(values, columns), rounded);
      convert(std::span<const Half>(rounded), quotient);
      for (std::size_t c = 0; c < columns; ++c) quotient[c] /= divisor.value[c];
      convert(std::span<const float>(quotient), rounded);
      convert(std::span<const Half>(rounded), quotient);
      row(r, quotient.data(), one, quotient.data());
    }
  }

  void write_chunks(ConstTensorView x, const Divisor& divisor, std::uint8_t* codes) {
    const auto columns = static_cast<std::size_t>(x.shape().columns());
    const auto width = static_cast<std::size_t>(chunk_width(x.shape()));
    over_rows(x.shape(), [&](std::int64_t begin, std::int64_t end, int thread) {
      for_rows(x.as<float>().data(), divisor, columns, begin, end, thread,
               [&](std::int64_t r, const float* row, const Divisor& by, const float* next) {
                 simd::quantize_row(row, by.value, by.inverse, columns, static_cast<std::size_t>(chunks()),
                                    options_.bits, next, codes + static_cast<std::size_t>(r) * width);
               });
    });
  }

  // Eight rows together fill whole bytes of the bit stream, whatever their length.
  void write_neighbours(ConstTensorView x, const Divisor& divisor, std::uint8_t* codes) {
    const auto columns = static_cast<std::size_t>(x.shape().columns());
    const std::size_t eight_rows = columns * static_cast<std::size_t>(options_.bits);  // bytes
    const std::uint8_t* stream_end = codes + code_bytes(x.shape());
    over_rows(x.shape(), [&](std::int64_t begin, std::int64_t end, int thread) {
      std::uint8_t* split = rows_[static_cast<std::size_t>(thread)].codes.as<std::uint8_t>(8 * columns);
      std::uint8_t* first = codes + static_cast<std::size_t>(begin / 8) * eight_rows;
      const std::uint8_t* last =
          std::min(stream_end, static_cast<const std::uint8_t*>(codes) +
                                   static_cast<std::size_t>((end + 7) / 8) * eight_rows);
      std::int64_t held = 0;  // rows of the octet split so far, from its end
      for_rows(x.as<float>().data(), divisor, columns, begin, end, thread,
               [&](std::int64_t r, const float* row, const Divisor& by, const float* next) {
                 simd::quantize_row(row, by.value, by.inverse, columns, 1, options_.bits, next,
                                    split + static_cast<std::size_t>(r % 8) * columns);
                 ++held;
                 if (r % 8 != 0) return;
                 std::uint8_t* to = first + static_cast<std::size_t>((r - begin) / 8) * eight_rows;
                 write_codes(split, static_cast<std::size_t>(held) * columns, options_.bits, to,
                             std::min(last, static_cast<const std::uint8_t*>(to) + eight_rows));
                 held = 0;
               });
    });
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
      const std::size_t eight_rows = columns * static_cast<std::size_t>(options_.bits);  // bytes
      RowScratch& scratch = rows_[static_cast<std::size_t>(thread)];
      for (std::int64_t r = begin; r < end; ++r) {
        const std::uint8_t* row = codes + static_cast<std::size_t>(r) * row_bytes;
        if (options_.neighbour) {
          std::uint8_t* split = scratch.codes.as<std::uint8_t>(8 * columns);
          if (r % 8 == 0)
            read_codes(codes + static_cast<std::size_t>(r / 8) * eight_rows, codes + code_bytes(shape),
                       columns, options_.bits, split);
          row = split + static_cast<std::size_t>(r % 8) * columns;
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

class CudaQuantize final : public CudaCodec {
 public:
  CudaQuantize(std::unique_ptr<Codec> host, const QuantizeOptions& options)
      : CudaCodec("quantize", std::move(host)),
        bits_(options.bits),
        form_((options.neighbour ? quantize_neighbour : 0) | (options.l2 ? quantize_l2 : 0) | (options.half_arithmetic ? quantize_half_arithmetic : 0)) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<thinwire_cuda_quantize_encode_fn> entry("thinwire_cuda_quantize_encode");
    const std::int64_t rows = shape.rows(), columns = shape.columns();
    entry(x, rows, columns, bits_, form_, static_cast<void*>(payload.data()), static_cast<void*>(device_workspace(quantize_workspace_bytes(rows, columns, form_))),
          tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<thinwire_cuda_quantize_decode_fn> entry("thinwire_cuda_quantize_decode");
    entry(static_cast<const void*>(payload.data()), shape.rows(), shape.columns(), bits_, form_, out, add ? 1 : 0, payload_status());
  }
  int bits_, form_;
};

QuantizeOptions options_of(const Parameters& p, Form form) {
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
  return options;
}

// The formula at the top in float64, but for the two f16 roundings that are part of it.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const std::span<const float> x = tensor.as<float>();
  const std::int64_t columns = tensor.shape().columns(), rows = tensor.shape().rows();
  const double half = std::ldexp(1.0, static_cast<int>(stack.expression.codec.parameters.integer("bits")) - 1);
  const bool l2 = stack.expression.codec.parameters.choice("norm") == "l2";
  std::vector<double> out(x.size()), scale(static_cast<std::size_t>(columns), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& s = scale[i % static_cast<std::size_t>(columns)];
    s = l2 ? s + double{x[i]} * x[i] : std::max(s, std::abs(double{x[i]}));
  }
  for (double& s : scale) s = round_to_half(static_cast<float>(l2 ? 2 * std::sqrt(s / static_cast<double>(rows)) : s));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double s = scale[i % static_cast<std::size_t>(columns)];
    const double divisor = round_to_half(static_cast<float>(s) + 1e-6f);
    const double y = std::clamp(std::nearbyint(x[i] / divisor * half), -half, half - 1);
    out[i] = y / half * s;
  }
  // f32 against f64 quotients may fall on either side of a tie, rarely; the released form rounds every step to f16.
  require_near_reference(decoded, out, stack.form == Form::released ? 0.05 : 1e-3);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "quantize",
                    .summary = "uniform codes of 1 to 8 bits with one f16 scale per channel",
                    .source = "Bian et al. (arXiv 2301.02654) as released in MCBench; packing=neighbour: "
                              "AQ-SGD (arXiv 2206.01299)",
                    .wire = "scale of each channel f16, then codes; packing=chunk: column i of each of 8 / bits chunks of a row in a byte; neighbour: one stream of bits",
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
                    .presets = {"bits=2", "bits=4"},
                    .has_released_form = true,
                    .make = [](const Parameters& p, Form form) { return std::make_unique<Quantize>(options_of(p, form)); },
                    .check = check_formula});
const bool cuda = register_cuda("quantize", [](const Parameters& p, Form form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaQuantize>(std::move(host), options_of(p, form));
});

}  // namespace
}  // namespace thinwire
