// The trainings that claims about activations compare: a GPT of 4 layers as a pipeline of four stages, of whose three boundaries the last two are coded (docs/papers/activation_compression.md:
// which names the last half of the layers), and arms on it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/trained.h"

namespace thinwire::claims::activation_compression {

using Settings = std::map<std::string, std::string>;

/// `tiny` of the page: hidden 128, sequences of 64 bytes, 16 of them a step in micro-batches of four. The learning rate is that of a pilot at twice the batch (on_replicas), by the
/// root of the batch.
Comparison four_stages(std::string name, int steps);
inline constexpr int training_steps = 700;

/// Settings of an arm: the activations, or the gradients, of these boundaries in this codec.
Settings forward(const std::string& codec, const std::string& layers = "2-3");
Settings backward(const std::string& codec, const std::string& layers = "2-3");
Settings both(const std::string& codec, const std::string& layers = "2-3");
Settings operator+(Settings a, const Settings& b);
/// The same training, validated without its codecs.
Settings validated_dense(Settings settings);

/// Margins of the page, in nats per token. `no_loss` is also what differences may scatter, since clauses ask for the ends of intervals.
inline const Constant no_loss{"no_loss", 0.02, "nats per token: what counts as no loss"};
inline const Constant smallest{"smallest", 0.005, "nats per token: the smallest difference worth naming"};
inline const Constant severe{"severe", 0.05, "nats per token: a severe loss"};
inline const Constant none{"none", 0, "no difference"};

/// A loss claim of this page in nats per token. In the profile standard three seeds, then five; those of the profile full alone have ten there.
struct NatClaim {
  std::string id, statement, provenance;
  std::vector<Constant> constants;
  std::vector<ScatterControl> scatter;
  std::vector<Clause> clauses;
  Profile from = Profile::standard;
  Verdict otherwise = Verdict::inconclusive;
  std::map<std::string, std::string> settings = {};  ///< what the rule says besides
  std::string figure = "activation_losses";
  std::vector<std::string> may_fail = {};                          ///< LossClaim::may_fail
  std::vector<std::pair<std::string, std::string>> diverged = {};  ///< LossClaim::diverged
};
bool register_in_nats(const NatClaim& claim, const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<LossDifference>& differences,
                      std::source_location where = std::source_location::current());

}  // namespace thinwire::claims::activation_compression
