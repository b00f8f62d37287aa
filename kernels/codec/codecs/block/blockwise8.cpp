// Codes of one byte with a scale per block of neighbours, as bitsandbytes' dynamic 8 bits, which hivemind and SWARM send (docs/papers/activation_compression.md,
// "SWARM"). The tensor is one row, cut into blocks of 4096 (the last is shorter). With a = max |x| of a block:
//   code = of the value v[code] nearest to x / a, rounded to f32; halfway between two, of the smaller one;   decoded = v[code] * a
// v, the dynamic code book, ascending (`read`: create_dynamic_map(signed=True, max_exponent_bits=7, total_bits=8) of bitsandbytes/functional.py): 0, 1, and for
// i = 0 .. 6 both signs of the 2^i means of neighbours among 2^i + 1 equally spaced numbers from 0.1 to 1, times 10^(i - 6). So 127 values are negative, 128 positive:
// a goes to 1, but -a to -0.99296875. The authors' book is computed in f32 throughout, ours in float64 and rounded: the last bits may differ.
// Payload, fair: a of all blocks f32, codes.
//   released: number of blocks int64, 256 as int64, a of all blocks f32, the book f32 [256], codes, as hivemind's BlockwiseQuantization sends a message.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/book_codes.h"
#include "kernels/simd/codes/mini_floats.h"
#include "kernels/simd/magnitude.h"

namespace thinwire {
namespace {

constexpr std::size_t book_size = 256, zero_code = 127;
constexpr std::array<double, 7> decades = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
using Book = std::array<float, book_size>;

Book dynamic_book() {
  Book book{};
  std::size_t next = zero_code;
  book[next++] = 0;
  for (std::size_t i = 0; i < decades.size(); ++i)
    for (int k = 0; k < 1 << i; ++k, ++next) {
      book[next] = static_cast<float>((0.1 + 0.9 * (k + 0.5) / (1 << i)) * decades[i]);
      book[2 * zero_code - next] = -book[next];
    }
  book[next] = 1;
  return book;
}

simd::MagnitudeCells cells_of(const Book& book) {
  constexpr std::uint32_t low = (1u << simd::MagnitudeCells::low_bits) - 1;
  // Bits of the largest f32 that is not beyond the middle of two neighbours.
  const auto threshold = [&](std::size_t code) {
    const double middle = (double{book[code]} + book[code + 1]) / 2;
    const auto rounded = static_cast<float>(middle);
    return std::bit_cast<std::uint32_t>(rounded) - (rounded > middle ? 1u : 0u);
  };
  simd::MagnitudeCells table;
  table.zero = zero_code, table.negatives = zero_code;
  table.first = threshold(zero_code) >> simd::MagnitudeCells::low_bits;
  std::size_t code = zero_code;
  for (std::uint32_t cell = table.first; cell <= std::bit_cast<std::uint32_t>(1.0f) >> simd::MagnitudeCells::low_bits; ++cell) {
    const auto below = static_cast<std::uint32_t>(code - zero_code);
    const bool has = code + 1 < book_size && threshold(code) >> simd::MagnitudeCells::low_bits == cell;
    table.cells.push_back((below << simd::MagnitudeCells::low_bits) + (has ? low - (threshold(code) & low) : 0));
    code += has ? 1 : 0;
    TW_ASSERT(code + 1 == book_size || threshold(code) >> simd::MagnitudeCells::low_bits > cell, "two thresholds in a cell");
  }
  return table;
}

const Book& book() {
  static const Book values = dynamic_book();
  return values;
}
const simd::MagnitudeCells& cells() {
  static const simd::MagnitudeCells table = cells_of(book());
  return table;
}

struct ReleasedHead {
  std::int64_t blocks = 0, values = book_size;
};

BlockLayout layout_of(bool released) {
  return {.bits = 8, .block = 4096, .head_bytes = released ? sizeof(ReleasedHead) : 0u, .scale_bytes = sizeof(float), .reads_twice = false, .flat = true, .table_bytes = released ? sizeof(Book) : 0u};
}

class Blockwise8 final : public BlockCodec {
 public:
  explicit Blockwise8(bool released) : BlockCodec("blockwise8", layout_of(released)), released_(released) { aim_at(0.4, 0.4); }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    if (released_) {
      const ReleasedHead head{.blocks = blocks_of(x.shape())};
      std::memcpy(payload.data(), &head, sizeof head);
      std::memcpy(payload.data() + book_at(x.shape()), book().data(), sizeof(Book));
    }
    return BlockCodec::write_payload(x, key, payload);
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    open(payload, out.shape(), key);
    BlockCodec::read_payload(payload, key, out);
  }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    open(payload, out.shape(), key);
    BlockCodec::add_payload(payload, key, out);
  }

 private:
  std::size_t book_at(const Shape& shape) const { return sizeof(ReleasedHead) + static_cast<std::size_t>(blocks_of(shape)) * sizeof(float); }

  /// The book that came with the message.
  void open(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key) {
    if (!released_) return;
    check_payload_size(payload.size(), max_payload_bytes(shape), "blockwise8", shape, key);
    ReleasedHead head;
    std::memcpy(&head, payload.data(), sizeof head);
    std::memcpy(received_.data(), payload.data() + book_at(shape), sizeof(Book));
    const bool good = head.blocks == blocks_of(shape) && head.values == static_cast<std::int64_t>(book_size);
    if (!good || !std::all_of(received_.begin(), received_.end(), [](float v) { return std::fabs(v) <= 1; }))
      throw CorruptData("blockwise8: the sizes or the code book of " + text_of(key) + " are none that are ever written: the payload is damaged");
  }

  bool encode_unit(const float* x, const Unit& unit, const MessageKey&, std::byte* scales, std::uint8_t* codes, Scratch&) const override {
    std::uint32_t bits = 0;
    if (simd::block_maxima(x, unit.count, unit.count, &bits) >= simd::non_finite_bits) return false;
    const auto most = std::bit_cast<float>(bits);
    std::memcpy(scales, &most, sizeof most);
    simd::encode_nearest(x, unit.count, most > 0 ? most : 1, cells(), codes);
    return true;
  }
  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch&) const override {
    float most = 0;
    std::memcpy(&most, scales, sizeof most);
    if (!std::isfinite(most) || most < 0) return false;
    simd::decode_book(codes, unit.count, released_ ? received_.data() : book().data(), most, out, add, unit.stream);
    return true;
  }

  bool released_;
  Book received_{};
};

class CudaBlockwise8 final : public CudaCodec {
 public:
  CudaBlockwise8(std::unique_ptr<Codec> host, bool released)
      : CudaCodec("blockwise8", std::move(host)), released_(released), book_(sizeof(Book)), cells_(cells().cells.size() * sizeof(std::uint32_t)) {
    copy_and_wait(book_.data(), book().data(), sizeof(Book));
    copy_and_wait(cells_.data(), cells().cells.data(), cells().cells.size() * sizeof(std::uint32_t));
  }

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, BlockCut, const std::uint32_t*, const std::uint32_t*, std::uint32_t, std::uint32_t, std::uint32_t, int, void*, std::uint32_t*, int, void*)>
        entry("thinwire_cuda_blockwise8_encode");
    entry(x, cut_of(shape), words_of(book_), words_of(cells_), cells().first, cells().zero, cells().negatives, released_ ? 1 : 0, static_cast<void*>(payload.data()), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, BlockCut, const std::uint32_t*, int, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_blockwise8_decode");
    entry(static_cast<const void*>(payload.data()), cut_of(shape), words_of(book_), released_ ? 1 : 0, out, add ? 1 : 0, payload_status());
  }
  void queue_empty(const Shape& shape, std::span<std::byte> payload) override {
    if (released_) queue_encode(nullptr, shape, {}, payload);  // sizes and book
  }
  BlockCut cut_of(const Shape& shape) const { return {shape.rows(), shape.columns(), layout_of(released_)}; }
  static const std::uint32_t* words_of(const Buffer& table) { return reinterpret_cast<const std::uint32_t*>(table.data()); }

  bool released_;
  Buffer book_, cells_;
};

// The nearest value of the book, looked for among all of them in float64.
std::string check_nearest(const CodecStack&, ConstTensorView tensor, std::span<const float> decoded) {
  const std::span<const float> x = tensor.as<float>();
  std::vector<double> out(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += 4096) {
    const std::size_t end = std::min<std::size_t>(begin + 4096, x.size());
    double most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(double{x[i]}));
    for (std::size_t i = begin; i < end; ++i) {
      const double y = most > 0 ? x[i] / most : 0;
      const auto above = std::lower_bound(book().begin(), book().end() - 1, y);
      const auto near = above != book().begin() && y - above[-1] <= *above - y ? above - 1 : above;
      out[i] = *near * most;
    }
  }
  require_as_near(x, decoded, out);
  return "nearest value of the book, in float64";
}

const bool registered = register_codec({.name = "blockwise8",
                                        .summary = "8 bits, a dynamic code book scaled by the largest of 4096 neighbours",
                                        .source = "Dettmers et al. (arXiv 2110.02861); bitsandbytes; SWARM (2301.11913)",
                                        .wire = "largest magnitude of each block f32, then a code byte an element; released: number of blocks and 256 as int64, magnitudes, the book f32 [256], codes",
                                        .has_released_form = true,
                                        .make = [](const Parameters&, Form form) { return std::make_unique<Blockwise8>(form == Form::released); },
                                        .check = check_nearest});
const bool cuda = register_cuda("blockwise8", [](const Parameters&, Form form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaBlockwise8>(std::move(host), form == Form::released);
});

}  // namespace
}  // namespace thinwire
