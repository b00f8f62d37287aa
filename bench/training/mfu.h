// Model FLOP utilisation: the arithmetic that a training step needs by the model's definition, over what the hardware could do in that time.
#pragma once

#include "models/gpt/gpt.h"

namespace thinwire::bench {

/// Floating-point operations of one token in a training step: 6 N + 12 L hidden seq (Chowdhery et al., "PaLM", arXiv 2204.02311, appendix B).
/// N counts the weights that are multiplied: all but the position embeddings; the token embeddings are the head's too. The attention term is not
/// halved for the causal mask, as there. Recomputed activations do not count: they are the trainer's choice, not the model's need.
double model_flops_per_token(const GptConfig& model, std::int64_t seq);

/// 1e9 operations per second of a step over `tokens` tokens.
double model_gflops(const GptConfig& model, std::int64_t seq, std::int64_t tokens, double step_seconds);

}  // namespace thinwire::bench
