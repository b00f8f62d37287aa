// The name of a message between two stages: the same on ranks and within one.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "models/compute/pass.h"

namespace thinwire {

/// Of the micro-batch `pass.micro` at the boundary in front of layer `boundary`. `samples` holds the numbers of its sequences over the whole run
/// as long as the key is used; a channel copies them.
inline MessageKey boundary_key(int boundary, const PassContext& pass, std::int64_t global_batch, std::vector<std::int64_t>& samples) {
  MessageKey key = message_key("boundary" + std::to_string(boundary), pass);
  samples.resize(static_cast<std::size_t>(pass.batch));
  std::iota(samples.begin(), samples.end(), static_cast<std::int64_t>(pass.step) * global_batch + pass.first_sample);
  key.samples = samples;
  return key;
}

}  // namespace thinwire
