// What codecs of small floats with a scale per block share: rows are cut into blocks of neighbours (the last of a row may be shorter), and every block
// becomes a scale and codes. Payload: head (a scale of the whole tensor, where there is one), scales of all blocks row by row, codes row by row; a row's codes end
// with their last byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "kernels/codec/codec.h"
#include "kernels/simd/mini_floats.h"

namespace thinwire {

/// By the names of the OCP MX specification: e4m3, e5m2, e2m3, e3m2, e2m1. Largest magnitudes 448, 57344, 7.5, 28, 6; e4m3 and e5m2 have patterns beyond,
/// NaN and infinity, which are never written and refused when read.
simd::MiniFloat mini_float_named(const std::string& element);
const std::vector<std::string>& mini_float_names();
/// The code of x, rounded half to even and clamped to the largest number, and the value of a code. Scalar.
std::uint8_t mini_code(float x, const simd::MiniFloat& format);
float mini_value(std::uint8_t code, const simd::MiniFloat& format);

class BlockFloat : public Codec {
 public:
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override;
  double least_bytes_read(const Shape& shape) const override;
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

 protected:
  /// `block` 0: a whole row.
  struct Layout {
    simd::MiniFloat format;
    std::int64_t block = 32;
    std::size_t head_bytes = 0, scale_bytes = 1;
    bool reads_twice = false;  ///< the head needs the largest magnitude of the tensor before anything else
  };
  BlockFloat(std::string name, const Layout& layout);

  /// The head from the largest magnitude of the tensor (where `reads_twice`), and what it means to blocks.
  virtual float write_head(float /*largest*/, std::byte* /*head*/) const { return 1; }
  /// CorruptData where it cannot have been written.
  virtual float read_head(const std::byte* /*head*/, const MessageKey& /*key*/) const { return 1; }
  /// Scales of blocks from their largest magnitudes (bits of f32, finite), and what their values are multiplied with before they are coded.
  virtual void write_scales(std::span<const std::uint32_t> maxima, float head, std::byte* scales, float* factors) const = 0;
  /// What values of codes are multiplied with. False for a scale that cannot have been written, or with which the largest number would not be finite.
  virtual bool read_scales(const std::byte* scales, std::size_t count, float head, float* factors) const = 0;

  const Layout& layout() const { return layout_; }

 private:
  struct Cut;
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add);
  struct Scratch {
    Buffer maxima, factors, codes;
  };

  std::string name_;
  Layout layout_;
  std::uint8_t largest_code_;
  CodecTraits traits_;
  std::vector<Scratch> scratch_;           ///< by thread
  std::vector<std::uint32_t> head_maxima_;  ///< likewise
};

}  // namespace thinwire
