#include "experiments/claims/activation_compression/cells/pipelines.h"

namespace thinwire::claims::activation_compression {

Comparison four_stages(std::string name, int steps) {
  CellRequest cell{"train_gpt", 4, "shm", {}, 3600, {"activation_compression", "losses"}, /*timed=*/false};
  results::Parameters& p = cell.parameters;
  for (const auto& [option, value] : std::map<std::string, std::int64_t>{{"pp", 4}, {"layers", 4}, {"hidden", 128}, {"heads", 4}, {"seq", 64}, {"micro-batch", 4}, {"global-batch", 16},
                                                                         {"steps", steps}, {"warmup", steps / 5}, {"eval-interval", steps / 10}, {"eval-sequences", 256}})
    p.set(option, value);
  p.set("comm-dtype", "f32");
  p.set("learning-rate", 0.004);
  cell.about_seconds = 0.045 * steps;  // 4 ranks on two cores
  return {std::move(name), std::move(cell)};
}

namespace {

Settings of_class(const std::string& traffic, const std::string& codec, const std::string& layers) { return {{"compress." + traffic, codec}, {"compress." + traffic + ".layers", layers}}; }

}  // namespace

Settings forward(const std::string& codec, const std::string& layers) { return of_class("pp_forward", codec, layers); }
Settings backward(const std::string& codec, const std::string& layers) { return of_class("pp_backward", codec, layers); }
Settings both(const std::string& codec, const std::string& layers) { return forward(codec, layers) + backward(codec, layers); }

Settings operator+(Settings a, const Settings& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Settings validated_dense(Settings settings) {
  for (const char* traffic : {"pp_forward", "tp_forward"})
    if (settings.contains(std::string("compress.") + traffic)) settings[std::string("compress.") + traffic + ".at_evaluation"] = "false";
  return settings;
}

bool register_in_nats(const NatClaim& claim, const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<LossDifference>& differences, std::source_location where) {
  LossClaim of{{.id = claim.id,
                .statement = claim.statement,
                .provenance = claim.provenance,
                .from = claim.from,
                .rule = {.settings = claim.settings, .constants = claim.constants, .scatter = claim.scatter, .clauses = claim.clauses, .otherwise = claim.otherwise, .smallest_effect = smallest.symbol},
                .seeds = claim.from == Profile::full ? std::vector<int>{3, 5, 10} : std::vector<int>{3, 5},
                .figure = claim.figure},
               comparison,
               arms,
               differences,
               LossUnit::nats};
  of.may_fail = claim.may_fail, of.diverged = claim.diverged;
  return register_loss_claim(std::move(of), where);
}

}  // namespace thinwire::claims::activation_compression
