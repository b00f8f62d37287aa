#include "experiments/claims/low_communication/cells/small_model.h"

#include <cstdio>

namespace thinwire::claims::low_communication {
namespace {

std::string text_of(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

/// A loop's rate and half of it; none of what has no loop, or one without momentum.
std::vector<std::string> rates_of_loop(const std::string& optimizer) {
  const std::size_t at = optimizer.find(",rate=");
  if (at == std::string::npos || optimizer.find(",momentum=") == std::string::npos) return {};
  const double rate = std::stod(optimizer.substr(at + 6));
  return {text_of(rate / 2), text_of(rate)};
}

/// Values of "learning-rate, min-lr, optimizer:rate", six for each arm: the rate falls to a tenth, and an
/// outer loop has half as many inner rates and two of its own.
std::vector<std::string> tried_by(const Trained& t) {
  const double middle = t.muon ? 0.02 : 0.006;
  std::vector<std::string> values;
  if (t.outer_rates.empty()) {
    for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0, 4.0})
      values.push_back(text_of(factor * middle) + ", " + text_of(factor * middle / 10));
    return values;
  }
  for (const double factor : {0.5, 1.0, 2.0})
    for (const std::string& outer : t.outer_rates)
      values.push_back(text_of(factor * middle) + ", " + text_of(factor * middle / 10) + ", " + outer);
  return values;
}

}  // namespace

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
            optimizer.starts_with("muon") || optimizer.starts_with("dion"),
            rates_of_loop(optimizer)};
  t.arm.settings["min-lr"] = t.muon ? "0.002" : "0.0006";  // a tenth of the middle rate
  if (replicas > 1) t.arm.settings["dp-replicas"] = std::to_string(replicas);
  for (const auto& [option, value] : more) t.arm.settings[option] = value;
  return t;
}

Trained sparse_loop(const std::string& name, const std::string& codec) {
  Trained t = arm(name, "adamw+local_sgd:inner_steps=" + std::to_string(inner_steps) + ",rate=1", 4,
                  {{"compress.outer_gradient", codec}});
  // Their rate, 1, belongs to a mean over the senders of an index; ours divides by the replicas, which of
  // four with independent supports is 3.9 times less (docs/papers/low_communication.md, "Trainings").
  t.outer_rates = {"1", "3.9"};
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

void set_arms(LossClaim& claim, const std::vector<Trained>& arms) {
  claim.tuning.option = "learning-rate, min-lr";
  for (const Trained& t : arms) {
    if (!t.outer_rates.empty()) claim.tuning.option = "learning-rate, min-lr, optimizer:rate";
    claim.tuning.values[t.arm.name] = tried_by(t);
    claim.arms.push_back(t.arm);
    claim.arms.back().settings.erase("min-lr");  // a tenth of whatever rate is chosen
  }
}

bool registered(Claim claim, Comparison comparison, const std::vector<Trained>& arms,
                std::vector<LossDifference> differences) {
  LossClaim of{std::move(claim), std::move(comparison), {}, std::move(differences), LossUnit::nats};
  of.claim.figure = "replica_losses";
  set_arms(of, arms);
  return register_loss_claim(std::move(of));
}

}  // namespace thinwire::claims::low_communication
