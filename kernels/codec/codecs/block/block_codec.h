// What codecs with a scale per block share: rows are cut into blocks of neighbours (the last of a row may be shorter), and every block becomes a scale and codes
// of a fixed number of bits. Payload: head (a scale of the whole tensor, where there is one), scales of all blocks row by row, a table where the codec has one, codes row
// by row; a row's codes end with their last byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/codecs/block/block_cut.h"
#include "kernels/codec/striped.h"

namespace thinwire {

class BlockCodec : public Codec, public Striped {
 public:
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override;
  double least_bytes_read(const Shape& shape) const override;
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override { return shrink(x, key, nullptr, payload); }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, nullptr, false, out); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, nullptr, true, out); }

  bool has_stripes(const Shape& shape, std::int64_t neighbours) const override;
  std::size_t encode_stripes(ConstTensorView x, const MessageKey& key, const StripeMap& before, std::span<std::byte> payload) override { return shrink(x, key, &before, payload); }
  void decode_stripes(std::span<const std::byte> payload, const MessageKey& key, const StripeMap& behind, bool add, TensorView out) override { expand(payload, key, &behind, add, out); }

 protected:
  using Layout = BlockLayout;
  BlockCodec(std::string name, const Layout& layout);

  /// Some whole blocks of a row, which one thread works on: small enough to stay in its cache.
  struct Unit {
    std::size_t element = 0, count = 0;       ///< first of the tensor, and how many
    std::int64_t column = 0;                  ///< of the first
    std::size_t block = 0, blocks = 0;        ///< elements of a block, and blocks
    std::size_t code_bytes = 0;
    float head = 1;
    bool stream = false;                      ///< decoding: the output is larger than the caches
  };
  /// Of a thread; grows only.
  struct Scratch {
    Buffer maxima, factors, more, codes, stripe;
  };

  /// Calls body(first, count) on pieces of a unit of at most `most` elements: whole blocks, or parts of one.
  template <typename Body>
  static void for_pieces(const Unit& unit, std::size_t most, const Body& body) {
    const std::size_t several = std::max<std::size_t>(1, most / unit.block) * unit.block;
    for (std::size_t begin = 0; begin < unit.count; begin += several)
      for (std::size_t i = begin, end = std::min(begin + several, unit.count); i < end; i += most) body(i, std::min(most, end - i));
  }

  /// The head from the largest magnitude of the tensor (where `reads_twice`), and what it means to blocks.
  virtual float write_head(float /*largest*/, std::byte* /*head*/) const { return 1; }
  /// CorruptData where it cannot have been written.
  virtual float read_head(const std::byte* /*head*/, const MessageKey& /*key*/) const { return 1; }
  /// False for NaN or infinity among x.
  virtual bool encode_unit(const float* x, const Unit& unit, const MessageKey& key, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const = 0;
  /// False for a scale or a code that is never written, or with which a value would not be finite.
  virtual bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const = 0;

  const Layout& layout() const { return layout_; }
  /// Other goals than most codecs of blocks have.
  void aim_at(double encode, double decode) { traits_.encode_goal = encode, traits_.decode_goal = decode; }
  std::int64_t blocks_of(const Shape& shape) const;

 private:
  struct Cut;
  std::size_t shrink(ConstTensorView x, const MessageKey& key, const StripeMap* before, std::span<std::byte> payload);
  void expand(std::span<const std::byte> payload, const MessageKey& key, const StripeMap* behind, bool add, TensorView out);
  bool decode_mapped(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, const StripeMap& behind, bool add, float* out, Scratch& scratch) const;
  void make_scratch();

  std::string name_;
  Layout layout_;
  CodecTraits traits_;
  std::vector<Scratch> scratch_;            ///< by thread
  std::vector<std::uint32_t> head_maxima_;  ///< likewise
};

}  // namespace thinwire
