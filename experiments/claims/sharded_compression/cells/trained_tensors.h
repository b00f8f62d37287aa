// What codecs make of the matrices of a trained model and of their gradients: one training per seed, in this process, for all claims that look at them.
#pragma once

#include <vector>

#include "experiments/claims/kept/kept.h"

namespace thinwire::claims::sharded_compression {

/// Claim::computed_by of claims on them.
inline const std::vector<std::string> trained_by = {
    "experiments/claims/sharded_compression/cells/trained_tensors.cpp", "experiments/claims/sharded_compression/cells/trained_tensors.h",
    "experiments/claims/sharded_compression/cells/messages.cpp", "experiments/claims/sharded_compression/cells/messages.h"};

/// By name, a number for each matrix in the order of the model:
///   hadamard           relative error of int4 in groups of 128, stochastic, of a micro-batch's gradient: with H of 32 over without
///   lossless_weights, lossless_gradients, lossless_initial   times that the exponent window makes them smaller, as bf16
/// and, one number each: loss (of the last step) and unigram (entropy of the text's bytes), nats per token.
Numbers trained_tensors(const JudgeContext& context, int seed);
/// Of the seeds 1 .. context.seeds().
std::vector<Numbers> trained_seeds(const JudgeContext& context);

/// What rules on it share: UNSTABLE where a model ended above the text's unigram entropy. The rule's own quantities and clauses follow.
Rule trained_rule();
/// What this clause asks for.
Measure learned_measure(const std::vector<Numbers>& seeds);

}  // namespace thinwire::claims::sharded_compression
