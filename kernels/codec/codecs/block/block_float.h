// Small floats with a scale per block: what mx, nvfp4 and fp8 share beyond BlockCodec.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/simd/codes/mini_floats.h"

namespace thinwire {

/// By the names of the OCP MX specification: e4m3, e5m2, e2m3, e3m2, e2m1. Largest magnitudes 448, 57344, 7.5, 28, 6; e4m3 and e5m2 have patterns beyond,
/// NaN and infinity, which are never written and refused when read.
simd::MiniFloat mini_float_named(const std::string& element);
const std::vector<std::string>& mini_float_names();
/// The code of x, rounded half to even and clamped to the largest number, and the value of a code. Scalar.
std::uint8_t mini_code(float x, const simd::MiniFloat& format);
float mini_value(std::uint8_t code, const simd::MiniFloat& format);

class BlockFloat : public BlockCodec {
 protected:
  /// The layout's bits are those of the format.
  BlockFloat(const std::string& name, const simd::MiniFloat& format, Layout layout);

  /// Scales of blocks from their largest magnitudes (bits of f32, finite), and what their values are multiplied with before they are coded.
  virtual void write_scales(std::span<const std::uint32_t> maxima, float head, std::byte* scales, float* factors) const = 0;
  /// What values of codes are multiplied with. False for a scale that cannot have been written, or with which the largest number would not be finite.
  virtual bool read_scales(const std::byte* scales, std::size_t count, float head, float* factors) const = 0;

  const simd::MiniFloat& format() const { return format_; }

 private:
  bool encode_unit(const float* x, const Unit& unit, const MessageKey& key, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const override;
  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override;

  simd::MiniFloat format_;
  std::uint8_t largest_code_;
};

}  // namespace thinwire
