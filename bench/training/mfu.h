// Model FLOP utilisation: the arithmetic that a training step needs by the model's definition, over what the hardware could do in that time.
#pragma once

#include <string>

#include "models/stage/model_config.h"

namespace thinwire::bench {

/// Floating-point operations of one token in a training step, by what the kind of model (`--model`) declares of itself: of a GPT
/// 6 N + 12 L hidden seq (models/stage/geometry.h). NaN for a kind that declares nothing.
double model_flops_per_token(const std::string& kind, const ModelConfig& model, std::int64_t seq);

/// 1e9 operations per second of a step over `tokens` tokens. NaN likewise.
double model_gflops(const std::string& kind, const ModelConfig& model, std::int64_t seq, std::int64_t tokens, double step_seconds);

}  // namespace thinwire::bench
