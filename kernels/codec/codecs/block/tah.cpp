// TAH-Quant (arXiv 2506.01352, first version; docs/papers/low_bandwidth_pipeline.md, "TAH-Quant"): integers with a step and an offset per tile of a token's channels,
// fewer bits for tokens whose magnitudes are concentrated, and a Hadamard transform for tiles with one outlier.
//   entropy of a token   p = |x| / (sum |x| + 1e-30),  H = -sum p ln(p + 1e-30);  of the S tokens of a sample the int(S (1 - share)) of lowest H get `low` bits, the others
//                        `high`; equal ones by their place. Samples are those that the key names, else the message is one.
//   tile with an outlier max1 >= 2 max2 of its magnitudes: elements 0 and arg max trade places, then y = H_tile x / sqrt(tile) (Sylvester order); a tile that the last
//                        channels do not fill is never transformed
//   code                 zero = min y, scale = max((max y - zero) / (2^b - 1), 1e-30);  q = (y - zero) / scale rounded half to even, 0 to 2^b - 1
//   decoded              q * f16(scale) + f16(zero), transformed and traded back. Beyond f16 both saturate, where the released code overflows;
//                        a scale below 2^-14 is rounded up before codes are made with it (core/half.h, step_for_half), where the released code makes codes with the unrounded one.
// Payload: a bit per token, 1 = low; a bit per tile, 1 = transformed; zeros, then scales (f16) of all tiles; log2(tile) bits of arg max of each transformed tile; codes of the
// tokens in order. Bits lie highest first; each of these begins with a byte, and so does each token's codes. The released code has the same parts in another order.
//   share * high + (1 - share) * low + 33 / tile + 1 / channels + log2(tile) / tile of the transformed tiles, bits per element
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/codec/codecs/block/token_entropy.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/codes/mini_floats.h"
#include "kernels/simd/hadamard.h"
#include "kernels/simd/signs.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr float least_scale = 1e-30f, largest_half = 65504.0f;

struct Options {
  int low = 3, high = 4;
  double share = 0.8;
  std::int64_t tile = 64;
  bool rotate = true, by_entropy = true;
  int pivot_bits() const { return std::bit_width(static_cast<std::uint64_t>(tile)) - 1; }
};

bool bit_at(const std::byte* bits, std::int64_t i) { return (bits[i / 8] >> (7 - i % 8) & std::byte{1}) != std::byte{0}; }
std::size_t bytes_of(std::int64_t bits) { return static_cast<std::size_t>(bits + 7) / 8; }

/// Where the parts of a payload begin, for so many transformed tiles.
struct Parts {
  Parts(const Shape& shape, const Options& o, std::int64_t transformed)
      : rows(shape.rows()), columns(shape.columns()), tiles((columns + o.tile - 1) / o.tile), tile_flags(bytes_of(rows)), zeros(tile_flags + bytes_of(rows * tiles)),
        scales(zeros + sizeof(Half) * static_cast<std::size_t>(rows * tiles)), pivots(scales + sizeof(Half) * static_cast<std::size_t>(rows * tiles)),
        codes(pivots + bytes_of(transformed * o.pivot_bits())) {}
  std::size_t row_bytes(int bits) const { return bytes_of(columns * bits); }

  std::int64_t rows, columns, tiles;  ///< tiles of a row
  std::size_t tile_flags, zeros, scales, pivots, codes;
};

class Tah final : public Codec {
 public:
  explicit Tah(const Options& o) : options_(o) { traits_.fixed_size = false; }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    const Parts parts(shape, options_, shape.rows() * ((shape.columns() + options_.tile - 1) / options_.tile));
    return parts.codes + static_cast<std::size_t>(parts.rows) * parts.row_bytes(options_.high);
  }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    if (x.elements() == 0) return 0;
    const Parts fixed(x.shape(), options_, 0);
    const float* const values = x.as<float>().data();
    const std::int64_t rows = fixed.rows, columns = fixed.columns, tiles = fixed.tiles;
    choose_tokens(x, key, payload.data());

    // What each tile is, and the codes of each token at the place that they have if no tile is transformed; they move behind the arg maxima when those are known.
    auto* const zeros = reinterpret_cast<std::byte*>(payload.data() + fixed.zeros);
    auto* const scales = payload.data() + fixed.scales;
    std::uint8_t* const pivots = pivots_.as<std::uint8_t>(static_cast<std::size_t>(rows * tiles));
    std::uint8_t* const is_transformed = transformed_.as<std::uint8_t>(static_cast<std::size_t>(rows * tiles));
    std::fill_n(is_transformed, rows * tiles, std::uint8_t{0});
    const std::int64_t* const places = place_rows(fixed, payload.data());
    const std::size_t code_bytes = static_cast<std::size_t>(places[rows]);
    std::uint8_t* const codes = codes_.as<std::uint8_t>(code_bytes);
    for_rows(fixed, [&](std::int64_t row, Scratch& scratch) {
      const auto width = static_cast<std::size_t>(columns), tile = static_cast<std::size_t>(options_.tile);
      const float* const token = values + row * columns;
      float* const y = scratch.row.as<float>(width);
      std::copy_n(token, width, y);
      if (options_.rotate) transform_tiles(token, fixed, scratch, y, is_transformed + row * tiles, pivots + row * tiles);
      float *const least = scratch.ranges.as<float>(2 * static_cast<std::size_t>(tiles)), *const largest = least + tiles;
      simd::block_ranges(y, width, tile, least, largest);
      const int bits = bit_at(payload.data(), row) ? options_.low : options_.high;
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(width + 8);
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t first = t * options_.tile;
        const float levels = static_cast<float>((1 << bits) - 1), wanted = (largest[t] - least[t]) / levels, scale = wanted > least_scale ? step_for_half(wanted) : least_scale;
        code_tile(y + first, std::min(options_.tile, columns - first), least[t], scale, levels, apart + first);
        const std::size_t at = sizeof(Half) * static_cast<std::size_t>(row * tiles + t);
        put_half(least[t], zeros + at);
        put_half(scale, scales + at);
      }
      write_codes(apart, width, bits, codes + places[row], codes + places[row + 1]);
    });

    std::size_t transformed = 0;
    std::byte* const flags = payload.data() + fixed.tile_flags;
    std::fill(flags, flags + bytes_of(rows * tiles), std::byte{0});
    for (std::int64_t at = 0; at < rows * tiles; ++at) {
      if (is_transformed[at] == 0) continue;
      flags[at / 8] |= std::byte{1} << (7 - at % 8);
      pivots[transformed++] = pivots[at];
    }
    const Parts parts(x.shape(), options_, static_cast<std::int64_t>(transformed));
    auto* const wire = reinterpret_cast<std::uint8_t*>(payload.data());
    write_codes(pivots, transformed, options_.pivot_bits(), wire + parts.pivots, wire + parts.codes);
    std::memcpy(wire + parts.codes, codes, code_bytes);
    return parts.codes + code_bytes;
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    if (out.elements() == 0) return check_payload_size(payload.size(), 0, "tah", out.shape(), key);
    const Parts fixed(out.shape(), options_, 0);
    const auto damaged = [&](const char* what) {
      return CorruptData("tah: " + text_of(key) + " has " + what + ": the payload is damaged, or sender and receiver use other expressions or shapes");
    };
    if (payload.size() < fixed.pivots) throw damaged("fewer bytes than flags, offsets and steps");
    const std::int64_t rows = fixed.rows, columns = fixed.columns, tiles = fixed.tiles;
    std::int64_t* const first_pivot = firsts_.as<std::int64_t>(static_cast<std::size_t>(rows));
    std::int64_t transformed = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      first_pivot[row] = transformed;
      for (std::int64_t t = 0; t < tiles; ++t) transformed += bit_at(payload.data() + fixed.tile_flags, row * tiles + t);
    }
    if (!options_.rotate && transformed > 0) throw damaged("transformed tiles");
    const std::int64_t* const places = place_rows(fixed, payload.data());
    const Parts parts(out.shape(), options_, transformed);
    check_payload_size(payload.size(), parts.codes + static_cast<std::size_t>(places[rows]), "tah", out.shape(), key);

    const auto* const wire = reinterpret_cast<const std::uint8_t*>(payload.data());
    const auto groups = static_cast<std::size_t>(transformed + 7) / 8;
    std::uint8_t* const pivots = pivots_.as<std::uint8_t>(8 * groups);
    read_codes(wire + parts.pivots, wire + parts.codes, groups, options_.pivot_bits(), pivots);
    for (std::int64_t at = 0; at < rows * tiles; ++at)
      if (!std::isfinite(half_at(payload.data() + parts.zeros, at)) || !std::isfinite(half_at(payload.data() + parts.scales, at))) throw damaged("an offset or a step that is not finite");
    float* const values = out.as<float>().data();
    for_rows(fixed, [&](std::int64_t row, Scratch& scratch) {
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(static_cast<std::size_t>(columns + 8));
      const int bits = bit_at(payload.data(), row) ? options_.low : options_.high;
      const std::uint8_t* const codes = wire + parts.codes;
      read_codes(codes + places[row], codes + places[row + 1], static_cast<std::size_t>(columns + 7) / 8, bits, apart);
      std::int64_t pivot = first_pivot[row];
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t at = row * tiles + t, first = t * options_.tile, count = std::min(options_.tile, columns - first);
        const float zero = half_at(payload.data() + parts.zeros, at), scale = half_at(payload.data() + parts.scales, at);
        float* const to = values + row * columns + first;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(apart[first + i]) * scale + zero;
        if (!bit_at(payload.data() + parts.tile_flags, at)) continue;
        if (count < options_.tile) continue;  // only a damaged flag says so
        simd::hadamard(to, static_cast<std::size_t>(count), static_cast<std::size_t>(count), nullptr, false, to);
        std::swap(to[0], to[pivots[pivot++]]);
      }
    });
  }

  /// Of a thread; grows only.
  struct Scratch {
    Buffer row, ranges, maxima, codes;
  };

  /// Calls body(row, the thread's scratch).
  template <class Body>
  void for_rows(const Parts& parts, const Body& body) {
    scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(omp_get_max_threads())));
    parallel_ranges(parts.rows, std::max<std::int64_t>(1, default_grain / 4 / parts.columns), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t row = begin; row < end; ++row) body(row, scratch_[static_cast<std::size_t>(thread)]);
    });
  }

  /// Transforms the tiles of a token's copy y that have an outlier, and says which, and where their largest magnitudes were.
  void transform_tiles(const float* token, const Parts& parts, Scratch& scratch, float* y, std::uint8_t* is_transformed, std::uint8_t* pivots) const {
    const std::int64_t tile = options_.tile, whole = parts.columns / tile;
    if (whole == 0) return;
    std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(static_cast<std::size_t>(whole));
    simd::block_maxima(token, static_cast<std::size_t>(whole * tile), static_cast<std::size_t>(tile), maxima);
    for (std::int64_t t = 0; t < whole; ++t) {
      const float *const x = token + t * tile, most = std::bit_cast<float>(maxima[t]);
      int near = 0;  // elements beyond half of it: the largest alone where the second largest is at most half
#pragma omp simd reduction(+ : near)
      for (std::int64_t i = 0; i < tile; ++i) near += 2 * std::abs(x[i]) > most ? 1 : 0;
      if (near > 1) continue;
      const auto at = static_cast<std::uint8_t>(std::find_if(x, x + tile, [&](float v) { return std::abs(v) == most; }) - x);
      float* const of = y + t * tile;
      std::swap(of[0], of[at]);
      simd::hadamard(of, static_cast<std::size_t>(tile), static_cast<std::size_t>(tile), nullptr, false, of);
      is_transformed[t] = 1, pivots[t] = at;
    }
  }

  /// Adding 1.5 * 2^23 rounds half to even and leaves the integer in the low bits of the sum.
  static void code_tile(const float* y, std::int64_t count, float zero, float scale, float levels, std::uint8_t* codes) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float q = std::min(std::max((y[i] - zero) / scale, 0.0f), levels);
      codes[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(q + 0x1.8p23f));
    }
  }

  /// Writes the bits of the tokens that get fewer bits.
  void choose_tokens(ConstTensorView x, const MessageKey& key, std::byte* flags) {
    const std::int64_t rows = x.shape().rows(), columns = x.shape().columns(), named = static_cast<std::int64_t>(key.samples.size());
    const std::int64_t samples = named > 0 && rows % named == 0 ? named : 1, tokens = rows / samples;
    const auto few = static_cast<std::int64_t>(static_cast<double>(tokens) * (1 - options_.share));
    const float* const values = x.as<float>().data();
    double* const rank = entropies_.as<double>(static_cast<std::size_t>(rows));
    const Random random(0x746168ull, key.random_stream());
    parallel_ranges(rows, std::max<std::int64_t>(1, default_grain / 8 / columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* const token = values + row * columns;
        const double mass = simd::sum_of_magnitudes(token, static_cast<std::size_t>(columns));
        rank[row] = !std::isfinite(mass) ? mass : options_.by_entropy ? entropy_of(token, columns, mass) : random.uniform(static_cast<std::uint64_t>(row));
      }
    });
    for (std::int64_t row = 0; row < rows; ++row)
      if (!std::isfinite(rank[row])) check_finite(x, text_of(key));
    std::fill(flags, flags + bytes_of(rows), std::byte{0});
    std::int64_t* const order = order_.as<std::int64_t>(static_cast<std::size_t>(tokens));
    for (std::int64_t first = 0; first < rows; first += tokens) {
      for (std::int64_t t = 0; t < tokens; ++t) order[t] = first + t;
      std::nth_element(order, order + few, order + tokens, [&](std::int64_t a, std::int64_t b) { return rank[a] != rank[b] ? rank[a] < rank[b] : a < b; });
      for (std::int64_t t = 0; t < few; ++t) flags[order[t] / 8] |= std::byte{1} << (7 - order[t] % 8);
    }
  }

  /// Where each row's codes begin, and at [rows] where they end.
  const std::int64_t* place_rows(const Parts& parts, const std::byte* flags) {
    std::int64_t* const places = places_.as<std::int64_t>(static_cast<std::size_t>(parts.rows + 1));
    places[0] = 0;
    for (std::int64_t row = 0; row < parts.rows; ++row)
      places[row + 1] = places[row] + static_cast<std::int64_t>(parts.row_bytes(bit_at(flags, row) ? options_.low : options_.high));
    return places;
  }

  static void put_half(float value, std::byte* to) {
    const Half half = to_half(std::clamp(value, -largest_half, largest_half));
    std::memcpy(to, &half, sizeof half);
  }
  static float half_at(const std::byte* from, std::int64_t i) {
    Half half;
    std::memcpy(&half, from + sizeof half * static_cast<std::size_t>(i), sizeof half);
    return to_float(half);
  }

  Options options_;
  CodecTraits traits_;
  std::vector<Scratch> scratch_;
  Buffer entropies_, order_, places_, firsts_, pivots_, transformed_, codes_;
};

Options options_of(const Parameters& p) {
  const Options o{static_cast<int>(p.integer("low")), static_cast<int>(p.integer("high")), p.real("share"), std::stoll(p.choice("tile")), p.flag("rotate"), p.choice("select") == "entropy"};
  if (o.low > o.high) throw UsageError("'tah:low=" + std::to_string(o.low) + ",high=" + std::to_string(o.high) + "': low bits are not more than high ones");
  return o;
}

// The formula at the top in float64, the transform by its definition. A message without named samples is one. A tile's error is at most the reference's: where a value lies
// between two codes both lose the same, and the transform keeps norms, but for what f16 does to offset and step.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Options o = options_of(stack.expression.codec.parameters);
  if (!o.by_entropy) return "none: tokens are drawn (structural checks only)";
  const std::span<const float> x = tensor.as<float>();
  const auto rows = static_cast<std::size_t>(tensor.shape().rows()), columns = static_cast<std::size_t>(tensor.shape().columns()), tile = static_cast<std::size_t>(o.tile);
  std::vector<std::pair<double, std::size_t>> entropies(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    double mass = 0, entropy = 0;
    for (std::size_t c = 0; c < columns; ++c) mass += std::abs(double{x[r * columns + c]});
    for (std::size_t c = 0; c < columns; ++c) {
      const double p = std::abs(double{x[r * columns + c]}) / (mass + 1e-30);
      entropy -= p * std::log(p + 1e-30);
    }
    entropies[r] = {entropy, r};
  }
  std::ranges::sort(entropies);
  std::vector<int> bits(rows, o.high);
  for (std::size_t t = 0; t < static_cast<std::size_t>(static_cast<double>(rows) * (1 - o.share)); ++t) bits[entropies[t].second] = o.low;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t first = 0; first < columns; first += tile) {
      const std::size_t count = std::min(tile, columns - first), at = r * columns + first;
      std::vector<double> y(x.begin() + static_cast<std::ptrdiff_t>(at), x.begin() + static_cast<std::ptrdiff_t>(at + count));
      const auto larger = [](double a, double b) { return std::abs(a) < std::abs(b); };
      const auto largest = static_cast<std::size_t>(std::ranges::max_element(y, larger) - y.begin());
      const bool transforms = o.rotate && count == tile && [&] {
        for (std::size_t i = 0; i < count; ++i)
          if (i != largest && std::abs(y[largest]) < 2 * std::abs(y[i])) return false;
        return true;
      }();
      const auto transform = [&] {
        std::vector<double> z(count, 0.0);
        for (std::size_t i = 0; i < count; ++i)
          for (std::size_t j = 0; j < count; ++j) z[i] += (std::popcount(i & j) % 2 == 0 ? y[j] : -y[j]) / std::sqrt(static_cast<double>(count));
        y = z;
      };
      if (transforms) std::swap(y[0], y[largest]), transform();
      const double levels = (1 << bits[r]) - 1, zero = *std::ranges::min_element(y), wanted = (*std::ranges::max_element(y) - zero) / levels,
                   scale = wanted > 1e-30 ? double{step_for_half(static_cast<float>(wanted))} : 1e-30;
      const auto travels = [](double v) { return double{to_float(to_half(std::clamp(static_cast<float>(v), -65504.0f, 65504.0f)))}; };
      for (double& v : y) v = std::clamp(std::nearbyint((v - zero) / scale), 0.0, levels) * travels(scale) + travels(zero);
      if (transforms) transform(), std::swap(y[0], y[largest]);
      double error = 0, least = 0;
      for (std::size_t i = 0; i < count; ++i) {
        error += std::pow(x[at + i] - double{decoded[at + i]}, 2);
        least += std::pow(x[at + i] - y[i], 2);
      }
      const double most = std::sqrt(least) * (1 + 1e-5) + 0x1p-10 * std::sqrt(static_cast<double>(count)) * (std::abs(zero) + levels * scale);
      if (!(std::sqrt(error) <= most))
        throw WrongResult("a tile of row " + std::to_string(r) + " is off by " + std::to_string(std::sqrt(error)) + ", the float64 reference by " + std::to_string(std::sqrt(least)));
    }
  return "scalar formula in float64";
}

const bool registered = register_codec(
    {.name = "tah",
     .summary = "TAH-Quant: 3 or 4 bits by a token's entropy, in tiles, those with an outlier through a Hadamard transform",
     .source = "TAH-Quant (arXiv 2506.01352), first version; released code, compress/tah_modules.py",
     .wire = "a bit a token and a bit a tile; zeros and scales f16 of all tiles; places of the largest in transformed tiles; codes of each token in a stream of bits",
     .parameters = {{.name = "low", .kind = ParameterSpec::Kind::integer, .default_value = "3", .minimum = 1, .maximum = 8, .help = "bits of the tokens with the lowest entropy"},
                    {.name = "high", .kind = ParameterSpec::Kind::integer, .default_value = "4", .minimum = 1, .maximum = 8, .help = "bits of the others"},
                    {.name = "share", .kind = ParameterSpec::Kind::real, .default_value = "0.8", .minimum = 0, .maximum = 1, .help = "share of tokens with high bits"},
                    {.name = "tile", .kind = ParameterSpec::Kind::choice, .default_value = "64", .choices = {"4", "8", "16", "32", "64", "128", "256"}, .help = "neighbouring channels with one step and offset"},
                    {.name = "rotate", .kind = ParameterSpec::Kind::flag, .default_value = "true", .help = "transform tiles with an outlier"},
                    {.name = "select", .kind = ParameterSpec::Kind::choice, .default_value = "entropy", .choices = {"entropy", "random"}, .help = "which tokens get low bits; random: drawn for each message"}},
     .presets = {"rotate=false", "low=2,high=2"},
     .make = [](const Parameters& p, Form) { return std::make_unique<Tah>(options_of(p)); },
     .check = check_formula});

}  // namespace
}  // namespace thinwire
