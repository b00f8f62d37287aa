// A small GPT in float64, in this process, of whose activation X at each boundary only what a subspace keeps arrives, besides what both ends know of its token: X^ = E[t] + (X - E[t]) A A^T, E the
// model's own table, read there and not trained through. A [d, r] is trained with the model, in one of two ways:
//   along the manifold, as MAPL's (docs/papers/low_bandwidth_pipeline.md, "The algorithms, as they are to be built"; second-hand), which keeps it orthonormal:
//     g_R = g - A sym(A^T g),   M = beta M + (1 - beta) g_R,   A <- polar(A - alpha polar(M)),   polar by Newton and Schulz
//   naively, by AdamW, and never made orthonormal again
// MAPL's tables of rank r and its residual quantiser are not built. Beside it the subspace network (subspace_network.h), whose U is fixed and whose blocks stay in its span.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/kept/kept.h"

namespace thinwire::claims::low_bandwidth_pipeline {

/// Claim::computed_by of claims on it.
inline const std::vector<std::string> projected_by = {
    "experiments/claims/low_bandwidth_pipeline/cells/projected_training.cpp", "experiments/claims/low_bandwidth_pipeline/cells/projected_training.h",
    "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.cpp", "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.h"};

inline constexpr int projected_steps = 300, projected_seq = 64, projected_sequences = 8;
inline constexpr int projected_hidden = 64, projected_rank = projected_hidden / 8;
inline const std::vector<std::string> projected_arms = {"fixed", "learnt", "naive"};  ///< the subspace network; along the manifold; by AdamW
inline const std::vector<std::string> projected_rates = {"0.0003", "0.001", "0.003", "0.01", "0.03"};

/// By name, numbers of one seed, each arm at the rate of projected_rates that ended lowest with seed 101:
///   loss ARM             validation loss at the end, nats per token
///   drawn, learnt, best  part of the square of X - E[t] that a subspace of r drawn at random keeps, that of the arm `learnt`, and the best one (PCA), by boundary; on a batch it was not trained on
///   unigram              entropy of the text's bytes
Numbers projected_training(const JudgeContext& context, int seed);

}  // namespace thinwire::claims::low_bandwidth_pipeline
