// Residuals in 8 or 16 bits, for what their rounding loses: a quarter of the memory of f32, or half of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/codec/codec.h"

namespace thinwire {

/// As Residuals (residuals.h), for tensors on the host.
class PackedResiduals {
 public:
  /// int8: of a group of 256 neighbours of the flattened tensor step = max |residual| / 127 in f32.
  enum class Type { bf16, int8 };
  /// nearest: half to even. stochastic: up with the probability of the fraction. A residual that grows by less than half a step per message stands still under `nearest`, and
  /// what it should have grown by is lost; under `stochastic` it grows as it should in the mean. Draws are keyed by message and element and, in a sum, each rank's own (MessageKey::rounding_stream).
  enum class Rounding { nearest, stochastic };

  /// `owner` names the wrapper in messages.
  PackedResiduals(std::string owner, Type type, Rounding rounding) : owner_(std::move(owner)), type_(type), rounding_(rounding) {}

  double bytes_per_element() const;
  void add_to(TensorView x, float beta, const MessageKey& key) const;
  void store(ConstTensorView x, ConstTensorView seen, const MessageKey& key) { blend(x, seen, 0.0f, key); }
  void blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key);
  void forget(const MessageKey& key) { packed_.erase(key.state_key()); }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  struct Packed {
    Tensor codes;  ///< bf16, or u8
    Tensor steps;  ///< of int8: a number per group
  };
  void check_size(const Packed& packed, const Shape& shape, const MessageKey& key) const;
  void reshape(Packed& packed, std::int64_t elements) const;
  /// Of `count` elements from `at`, which a group begins with.
  void unpack(const Packed& packed, std::size_t at, std::size_t count, float* residual) const;
  void pack(Packed& packed, std::size_t at, std::size_t count, const float* residual, const MessageKey& key) const;

  std::string owner_;
  Type type_;
  Rounding rounding_;
  std::map<std::uint64_t, Packed> packed_;  // by key.state_key()
};

}  // namespace thinwire
