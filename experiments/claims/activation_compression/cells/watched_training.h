// A small GPT trained in this process over epochs of a fixed set of windows, whose boundary activations are watched: how much a sample's activation changes from epoch to epoch, and how low-rank
// activations and gradients are. Dense: nothing is coded.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/kept/kept.h"

namespace thinwire::claims::activation_compression {

/// Claim::computed_by of claims on it.
inline const std::vector<std::string> watched_by = {
    "experiments/claims/activation_compression/cells/watched_training.cpp", "experiments/claims/activation_compression/cells/watched_training.h",
    "experiments/claims/activation_compression/cells/sent.cpp", "experiments/claims/activation_compression/cells/sent.h"};

inline constexpr int watched_epochs = 10;
inline constexpr int watched_boundaries = 3;  ///< in front of layers 1, 2, 3 of four

struct WatchedCodec {
  std::string name, codec;
};
/// What boundary activations are sent through to see its error; nothing of it comes back to the training. TAH takes 4.3 to 4.4 bits of an element here; plain groups more and fewer.
inline const std::vector<WatchedCodec> watched_codecs = {{"TAH", "tah"}, {"4.5 bits", "group:range=minmax,scale=f16,bits=4,group=64"}, {"4.25 bits", "group:range=minmax,scale=f16,bits=4,group=128"}};

/// By name, numbers of one seed:
///   change B        of the boundary in front of layer B: mean over samples of ||x - m|| / ||x|| in each epoch from the second on, m what the sample had in the epoch before, in f16
///   weight          share of the singular values that hold 90 % of the energy, of the gradient of the MLP's first matrix: layers 1 to 3 at 10, 50 and 100 % of the training, in turn
///   activation, centred   of the boundary activation in front of the same layers, as it is and less the mean of each channel
///   returning       of the gradient that travels back there
///   error, bits, NAME   of the same activations through a watched codec: square error over the square, bits of an element
///   loss, unigram   of the last step, nats per token; entropy of the text's bytes
Numbers watched_training(const JudgeContext& context, int seed);
/// Of the seeds 1 .. context.seeds().
std::vector<Numbers> watched_seeds(const JudgeContext& context);

/// What rules on it share: UNSTABLE where a model ended above the text's unigram entropy. The rule's own quantities and clauses follow.
Rule watched_rule();
/// What this clause asks for.
Measure learned_measure(const std::vector<Numbers>& seeds);

/// Count of the largest of `singular` values that hold 90 % of the sum of squares, over their number.
double share_of_energy(const std::vector<double>& singular);

}  // namespace thinwire::claims::activation_compression
