#include "bench/harness/baseline.h"

#include "collectives/link/link_calibration.h"
#include "kernels/convert.h"

namespace thinwire::bench {

bool is_slow(const std::string& link) { return nominal_link_gbps(link) < 1; }

Tensor to_wire(const Tensor& x, DType wire) {
  Tensor out(x.shape(), wire);
  if (wire == DType::f16) convert(x.as<float>(), out.as<Half>());
  else if (wire == DType::bf16) convert(x.as<float>(), out.as<BFloat16>());
  else if (wire == DType::f32) std::memcpy(out.view().data(), x.view().data(), x.bytes());
  else throw UsageError("--comm-dtype " + std::string(name_of(wire)) + ": a dense tensor travels as f16, bf16 or f32");
  return out;
}

std::span<const float> from_wire(const Tensor& x, Tensor& scratch) {
  if (x.dtype() == DType::f32) return x.as<float>();
  scratch.reshape(x.shape());
  if (x.dtype() == DType::f16) convert(x.as<Half>(), scratch.as<float>());
  else convert(x.as<BFloat16>(), scratch.as<float>());
  return scratch.as<float>();
}

}  // namespace thinwire::bench
