// The option that policies with a momentum of their own share.
#pragma once

#include <string>

#include "kernels/codec/registry.h"

namespace thinwire {

inline ParameterSpec momentum_parameter(const std::string& default_value) {
  return {.name = "momentum", .default_value = default_value, .minimum = 0, .maximum = 1, .help = "share of the sum of gradients that a step keeps"};
}

}  // namespace thinwire
