#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims::low_communication {

Comparison small_model(const std::string& name, int ranks, int steps) {
  constexpr int sequences = 16;
  Comparison c = on_replicas(name, ranks, steps);
  results::Parameters& p = c.cell.parameters;
  p.set("seq", 128);
  p.set("global-batch", sequences);
  p.set("micro-batch", sequences / ranks);
  p.set("eval-sequences", 128);
  p.set("warmup", steps / 20);
  p.set("eval-interval", steps / 10);
  c.cell.tags = {"low_communication", "losses"};
  return c;
}

Trained arm(const std::string& name, const std::string& optimizer, int replicas,
            const std::map<std::string, std::string>& more) {
  Trained t{{name, {{"optimizer", optimizer}}},
            optimizer.starts_with("muon") || optimizer.starts_with("dion")};
  t.arm.settings["min-lr"] = t.muon ? "0.002" : "0.0006";  // a tenth of the middle rate
  if (replicas > 1) t.arm.settings["dp-replicas"] = std::to_string(replicas);
  for (const auto& [option, value] : more) t.arm.settings[option] = value;
  return t;
}

std::string diloco(int steps, const std::string& inner, const std::string& rate,
                   const std::string& momentum) {
  return inner + "+diloco:inner_steps=" + std::to_string(steps) + ",rate=" + rate + ",momentum=" + momentum;
}

Rule as_good(const std::string& symbol, double delta) {
  return {.constants = {{"delta", delta, "nats per token: as good as"},
                        {"smallest", 0.005, "nats per token: the smallest difference worth naming"}},
          .scatter = {{symbol, "delta", "delta"}},
          .clauses = {{Verdict::confirmed, symbol + ".high < delta"},
                      {Verdict::not_reproduced, symbol + ".low > delta"}},
          .smallest_effect = "smallest"};
}

Rule better(const std::string& symbol, double smallest) {
  return {.constants = {{"none", 0, "no difference"},
                        {"delta", 0.02, "nats per token: what differences may scatter"},
                        {"smallest", smallest, "nats per token: the smallest difference worth naming"}},
          .scatter = {{symbol, "none", "delta"}},
          .clauses = {{Verdict::confirmed, symbol + ".high < none && " + symbol + " <= -smallest"},
                      {Verdict::not_reproduced, symbol + ".low > -smallest"}},
          .smallest_effect = "smallest"};
}

bool registered(Claim claim, Comparison comparison, const std::vector<Trained>& arms,
                std::vector<LossDifference> differences) {
  LossClaim of{std::move(claim),       std::move(comparison),       {},
               std::move(differences), LossUnit::nats, {.option = "learning-rate"}};
  of.claim.figure = "replica_losses";
  for (const Trained& t : arms) {
    of.arms.push_back(t.arm);
    of.tuning.values[t.arm.name] = t.muon ? std::vector<std::string>{"0.01", "0.02", "0.04"}
                                          : std::vector<std::string>{"0.003", "0.006", "0.012"};
  }
  return register_loss_claim(std::move(of));
}

}  // namespace thinwire::claims::low_communication
