// Hadamard transform `hadamard`: what the codec before it sees is rotated, so that an outlier spreads over its block and a scale per group fits all of it: SDP4Bit
// (arXiv 2410.15526; docs/papers/sharded_compression.md, "The algorithms, as they are to be built") with block=32, TAH-Quant with 64; with random signs, THC.
//   y = H S x / sqrt(block) for blocks of neighbours of a row, H in Sylvester order, S = 1, or, signs=keyed, +-1 by draws of the message for each column
//   decoded = S H inner(y) / sqrt(block);  orthonormal, so errors keep their norm and sums over ranks stay sums
// What is left of a row, shorter than a block, is cut into the powers of two that sum to it (13 = 8 + 4 + 1): nothing is padded. SDP4Bit divides by block at the
// receiver alone; the codec then sees sqrt(block) times our numbers, which changes nothing for codecs with scales. Payload: the inner codec's.
#include <algorithm>

#include "core/random.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/transformed_codec.h"
#include "kernels/simd/hadamard.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::uint64_t signs_seed = 0x686164616d617264ull;  // "hadamard"

class Rotation final : public StripeMap {
 public:
  Rotation() = default;
  /// `signs` of all columns, or null.
  Rotation(std::int64_t block, const float* signs, bool back) : block_(block), signs_(signs), back_(back) {}
  void apply(const float* from, std::int64_t column, std::size_t count, float* to) const override {
    simd::hadamard(from, count, static_cast<std::size_t>(block_), signs_ == nullptr ? nullptr : signs_ + column, back_, to);
  }

 private:
  std::int64_t block_ = 0;
  const float* signs_ = nullptr;
  bool back_ = false;
};

class Hadamard final : public TransformedCodec {
 public:
  Hadamard(std::int64_t block, bool keyed, std::unique_ptr<Codec> inside) : TransformedCodec("hadamard", std::move(inside)), block_(block), keyed_(keyed) {
    if (keyed && (traits().stateful || traits().needs_fit))
      throw UsageError("hadamard:signs=keyed turns every message another way, but the codec inside goes on from earlier ones; use signs=none");
  }

  void transform(ConstTensorView x, const MessageKey& key, TensorView to) override { rotate(x, key, false, to); }
  void restore(ConstTensorView y, const MessageKey& key, TensorView to) override { rotate(y, key, true, to); }

 protected:
  std::int64_t neighbours() const override { return block_; }
  const StripeMap& map_of(std::int64_t columns, const MessageKey& key, bool back) override {
    return rotation_ = Rotation(block_, keyed_ ? signs_of(columns, key) : nullptr, back);
  }

 private:
  void rotate(ConstTensorView x, const MessageKey& key, bool back, TensorView to) {
    const std::int64_t columns = x.shape().columns(), blocks = (columns + block_ - 1) / block_;
    if (x.elements() == 0) return;
    const StripeMap& map = map_of(columns, key, back);
    const float* const from = x.as<float>().data();
    float* const out = to.as<float>().data();
    parallel_for(x.shape().rows() * blocks, std::max<std::int64_t>(1, default_grain / std::min(block_, columns)), [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t row = begin / blocks, first = begin % blocks * block_, last = std::min(columns, (end - row * blocks) * block_);
        const std::int64_t at = row * columns + first;
        map.apply(from + at, first, static_cast<std::size_t>(last - first), out + at);
        begin = (row + 1) * blocks;
      }
    });
  }

  const float* signs_of(std::int64_t columns, const MessageKey& key) {
    float* const signs = signs_.as<float>(static_cast<std::size_t>(columns));
    const Random random(signs_seed, key.random_stream());
    for (std::int64_t i = 0; i < columns; i += 128) {
      const auto words = random.block(static_cast<std::uint64_t>(i / 128));
      for (std::int64_t k = 0; k < std::min<std::int64_t>(128, columns - i); ++k) signs[i + k] = (words[static_cast<std::size_t>(k / 32)] >> k % 32 & 1) != 0 ? -1.0f : 1.0f;
    }
    return signs;
  }

  std::int64_t block_;
  bool keyed_;
  Buffer signs_;  ///< of the columns
  Rotation rotation_;
};

const bool registered = register_wrapper(
    {.name = "hadamard",
     .summary = "the codec sees blocks of neighbours through an orthonormal Hadamard transform, which spreads outliers",
     .source = "SDP4Bit (arXiv 2410.15526) and TAH-Quant: blocks of 32 and 64; THC: random signs",
     .wire = "the codec's, of the transformed tensor",
     .parameters = {{"block", ParameterSpec::Kind::choice, "32", 0, 0, {"2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"}, "neighbours of a row in one transform"},
                    {"signs", ParameterSpec::Kind::choice, "none", 0, 0, {"none", "keyed"}, "random signs of the columns before the transform, drawn for each message"}},
     .decorate = [](const Parameters& p, std::unique_ptr<Codec> inside) -> std::unique_ptr<Codec> {
       return std::make_unique<Hadamard>(std::stoll(p.choice("block")), p.choice("signs") == "keyed", std::move(inside));
     }});

}  // namespace
}  // namespace thinwire
