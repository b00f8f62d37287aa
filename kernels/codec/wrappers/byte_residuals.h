// Residuals in 8 bits: a quarter of the memory of f32 and a scale per 256 elements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/codec/codec.h"

namespace thinwire {

/// As Residuals (residuals.h), for tensors on the host. Of a group of 256 neighbours of the flattened tensor: step = max |residual| / 127 in f32, codes rounded half
/// to even; what the rounding loses is lost.
class ByteResiduals {
 public:
  explicit ByteResiduals(std::string owner) : owner_(std::move(owner)) {}

  void add_to(TensorView x, float beta, const MessageKey& key);
  void blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key);
  void forget(const MessageKey& key) { packed_.erase(key.state_key()); }
  void forget_all() { packed_.clear(); }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  struct Packed {
    std::vector<std::uint8_t> codes;
    std::vector<float> steps;
  };
  void check_size(const Packed& packed, const Shape& shape, const MessageKey& key) const;

  std::string owner_;
  std::map<std::uint64_t, Packed> packed_;  // by key.state_key()
};

}  // namespace thinwire
