// The parameter `store` of wrappers that keep residuals: in which memory they do.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/device/placement.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/wrappers/packed_residuals.h"
#include "kernels/codec/wrappers/residuals.h"

namespace thinwire {

inline ParameterSpec store_parameter(const char* help) { return {"store", ParameterSpec::Kind::choice, "f32", 0, 0, {"f32", "bf16", "int8"}, help}; }

/// W<Memory>(memory, arguments...) of wrapper `name`; `rounding` is that of bf16 and int8.
template <template <class> class W, class... Arguments>
std::unique_ptr<Wrapper> with_residuals(const std::string& name, const Parameters& p, PackedResiduals::Rounding rounding, Arguments... arguments) {
  const std::string& store = p.choice("store");
  if (store == "f32") return std::make_unique<W<Residuals>>(Residuals(name), arguments...);
  if (!placement().on_host()) throw UsageError(name + ":store=" + store + " has no CUDA implementation; use store=f32");
  const auto type = store == "bf16" ? PackedResiduals::Type::bf16 : PackedResiduals::Type::int8;
  return std::make_unique<W<PackedResiduals>>(PackedResiduals(name, type, rounding), arguments...);
}

}  // namespace thinwire
