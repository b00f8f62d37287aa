#include "experiments/claims/low_bandwidth_pipeline/cells/raced.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "core/error.h"
#include "experiments/claims/interval.h"
#include "kernels/codec/registry.h"
#include "models/parallel/schedule/schedule.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

constexpr int hidden = 64, sequences = 64, seq = 64, first_seed_of_twin = 11;
constexpr int target_at = race_horizon * 9 / 10;

std::int64_t message_bytes(const RacedArm& arm, int micro_batches) {
  const Shape message{sequences / micro_batches * seq, hidden};
  if (arm.codec.empty()) return 2 * message.elements();
  return static_cast<std::int64_t>(make_codec(arm.codec, Form::fair).codec->max_payload_bytes(message));
}

double loss_at(int steps, const results::CellRecord& record) {
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (row.step + 1 == steps && !std::isnan(row.validation_loss)) return row.validation_loss;
  throw RuntimeFailure("cell " + record.cell_id + " was not validated after " + std::to_string(steps) + " steps");
}

RuleArm stretched(RuleArm arm, int horizons) {
  if (horizons == 1) return arm;  // the horizon's own cells are those that rates were tried on
  arm.settings["steps"] = std::to_string(horizons * race_horizon);
  arm.settings["warmup"] = std::to_string(horizons * race_horizon / 10);
  return arm;
}

std::vector<results::CellRecord> run_seeds(JudgeContext& context, const Comparison& comparison, const RuleArm& arm) {
  std::vector<CellRequest> cells;
  for (int seed = 1; seed <= context.seeds(); ++seed) cells.push_back(cell_of(comparison, arm, seed));
  return context.cells.run(cells);
}

/// The shortest run of the tuning seed that reaches the target; the longest where none does.
int horizons_of(JudgeContext& context, const Comparison& comparison, const RuleArm& arm, double target, int seed) {
  for (int horizons = 1; horizons < longest_race; horizons *= 2)
    if (!std::isnan(steps_to(target, context.cells.run_one(cell_of(comparison, stretched(arm, horizons), seed))))) return horizons;
  return longest_race;
}

/// What an arm did: of each seed the steps to the target, or, where it did not arrive, those of its longest run, which are fewer than it takes; and that run.
struct Raced {
  int horizons;  ///< of the first runs
  std::vector<double> steps;
  std::vector<results::CellRecord> records;
  std::size_t missing = 0;
};

/// Runs of so many horizons; a seed that does not reach the target runs again, twice as long each time, up to the longest.
Raced race(JudgeContext& context, const Comparison& comparison, const RuleArm& arm, double target, int first_seed, int horizons) {
  Raced all{horizons, std::vector<double>(static_cast<std::size_t>(context.seeds())), std::vector<results::CellRecord>(static_cast<std::size_t>(context.seeds()))};
  std::vector<std::size_t> late(all.steps.size());
  std::iota(late.begin(), late.end(), 0);
  for (;; horizons *= 2) {
    std::vector<CellRequest> cells;
    for (const std::size_t seed : late) cells.push_back(cell_of(comparison, stretched(arm, horizons), first_seed + static_cast<int>(seed)));
    std::vector<results::CellRecord> records = context.cells.run(cells);
    std::vector<std::size_t> still;
    for (std::size_t i = 0; i < late.size(); ++i) {
      const double steps = steps_to(target, records[i]);
      if (std::isnan(steps)) still.push_back(late[i]);
      all.steps[late[i]] = std::isnan(steps) ? horizons * race_horizon : steps;
      all.records[late[i]] = std::move(records[i]);
    }
    late = std::move(still);
    if (late.empty() || horizons >= longest_race) break;
  }
  all.missing = late.size();
  return all;
}

Interval ratio_of(std::span<const double> over, std::span<const double> under, double factor) {
  std::vector<double> logarithms;
  for (std::size_t seed = 0; seed < over.size(); ++seed) logarithms.push_back(std::log(factor * over[seed] / under[seed]));
  Interval ratio = interval_of(logarithms);
  for (double* value : {&ratio.mean, &ratio.low, &ratio.high}) *value = std::exp(*value);
  return ratio;
}

std::string name_of(RaceLink link) { return link == RaceLink::meter ? "the contest's link" : "ordinary cards"; }

}  // namespace

RacedArm dense_arm() { return {"dense", {"dense", {}}, ""}; }

RacedArm coded_arm(const std::string& symbol, const std::string& name, const std::string& codec) {
  return {symbol, {name, {{"compress.pp_forward", codec}, {"compress.pp_backward", codec}}}, codec};
}

RacedArm subspace_arm(const std::string& symbol, const std::string& name, int k) {
  const std::string width = "k=" + std::to_string(k), codec = "cast:to=bf16+subspace:" + width + ",deviation=0.02";
  return {symbol, {name, {{"optimizer", "adamw+subspace:" + width + ",deviation=0.02"}, {"compress.pp_forward", codec}}}, codec};
}

Comparison race_s(const std::string& name) {
  CellRequest cell{"train_gpt", race_stages, "shm", {}, 3600, {"low_bandwidth_pipeline", "losses"}, /*timed=*/false};
  results::Parameters& p = cell.parameters;
  for (const auto& [option, value] : std::map<std::string, std::int64_t>{{"pp", race_stages}, {"layers", 4}, {"hidden", hidden}, {"heads", 4}, {"seq", seq}, {"micro-batch", 8}, {"global-batch", sequences},
                                                                         {"steps", race_horizon}, {"warmup", race_horizon / 10}, {"eval-interval", race_horizon / 50}, {"eval-sequences", 256}})
    p.set(option, value);
  p.set("model", "gpt:head=own");
  cell.about_seconds = 0.16 * race_horizon;  // 4 ranks on two cores
  return {name, std::move(cell)};
}

Tuning race_rates(const std::vector<RacedArm>& arms) {
  Tuning tuning{.option = "learning-rate, min-lr"};  // the rate falls to a tenth
  for (const RacedArm& raced : arms) tuning.values[raced.arm.name] = {"0.001, 0.0001", "0.003, 0.0003", "0.01, 0.001", "0.03, 0.003", "0.1, 0.01"};
  return tuning;
}

double race_step(const RacedArm& arm, RaceLink link) {
  const Baseline& dense = baselines().front();
  const double of_dense = 2.0 * hidden * sequences * seq, of_contest = static_cast<double>(dense.message_bytes) * dense.micro_batches;
  Wire wire = contest;
  wire.rate *= of_dense / of_contest;
  wire.shared = wire.latency_occupies = link == RaceLink::meter;
  double best = INFINITY;
  for (int m = race_stages; m <= sequences; m *= 2) {
    // A stage of four holds twice the layers of one of eight, a micro-batch of 64 / m sequences so many times the work.
    Passes passes = dense.passes;
    const double share = 2.0 * dense.micro_batches / m;
    for (double* pass : {&passes.forward, &passes.backward, &passes.last_forward, &passes.last_backward}) *pass *= share;
    passes.optimizer *= 2;
    best = std::min(best, walked_step(make_schedule("1f1b", race_stages, m), wire, message_bytes(arm, m), passes));
  }
  return best;
}

bool register_race(Claim claim, std::vector<RacedArm> arms, std::vector<RaceRatio> ratios, std::source_location where) {
  const Comparison comparison = race_s("race-s to the dense run's loss");
  const Tuning tuning = race_rates(arms);
  std::vector<RuleArm> stated;
  for (const RacedArm& raced : arms) stated.push_back(raced.arm);
  Rule rule = comparison_rule(comparison, stated);
  rule.settings[tuning.option] = text_of(tuning);
  rule.settings["target"] = "mean over the seeds of the dense arm's validation loss after " + std::to_string(target_at) + " of " + std::to_string(race_horizon) +
                            " steps; the first validation at or below it ends a run's race, unsmoothed, its codecs on";
  rule.settings["steps of a run"] = "the dense arm's the horizon; any other arm's that or twice, four or eight times that, the first at which its tuning seed reaches the target; a seed of any arm that does not reach it "
                                    "runs again, twice as long each time, up to eight horizons, and counts as its whole run, fewer steps than it takes, where that is not enough either";
  rule.settings["seeds of the second dense set"] = std::to_string(first_seed_of_twin) + ", ...";
  for (const RaceRatio& r : ratios)
    rule.quantities.push_back({r.symbol, "steps to the target of the arm " + r.over + " over those of the arm " + r.under +
                                             (r.times ? ", each times a walked step on " + name_of(r.link) + " (rate by a dense step's bytes, latency 50 ms, the best of 4 to 64 micro-batches)" : "") +
                                             "; geometric mean over paired seeds, 95 % interval of logarithms by Student's t"});
  for (const RacedArm& raced : arms) rule.quantities.push_back({raced.symbol + "_missing", "seeds of the arm " + raced.arm.name + " that did not reach the target"});
  rule.quantities.push_back({"twin_missing", "seeds of the dense arm's second set that did not reach it"});
  rule.quantities.push_back({"twin", "steps to the target of the dense arm's second set of seeds over those of the first, taken in pairs"});
  rule.constants.push_back({"one", 1, "x: as long"});
  rule.constants.push_back({"all", 0, "seeds that are missing: all arrived"});
  // Of a dense seed that does not arrive the run bounds neither a ratio over the dense arm nor the control, which would pass by its wider interval.
  rule.clauses.push_back({Verdict::not_decidable, arms.front().symbol + "_missing != all || twin_missing != all"});
  rule.clauses.push_back({Verdict::invalid, "twin.low > one || twin.high < one"});
  Rule& own = claim.rule;
  rule.constants.insert(rule.constants.end(), own.constants.begin(), own.constants.end());
  rule.clauses.insert(rule.clauses.end(), own.clauses.begin(), own.clauses.end());
  rule.scatter = own.scatter, rule.smallest_effect = own.smallest_effect;
  own = rule;
  claim.basis = Basis::training;
  claim.from = Profile::full;
  claim.seeds = {5, 10};
  claim.measure = [comparison, tuning, arms, stated, ratios](JudgeContext& context) {
    Table choice = table_of(tuning);
    const auto choose = [&] {
      try {
        return tuned(context, comparison, stated, tuning, choice);
      } catch (const PlanEnds&) {  // the seeds follow, and the dense arm's second set; how far other arms are stretched nobody knows yet
        std::vector<CellRequest> later = cells_of(comparison, stated, context.seeds());
        for (int seed = 0; seed < context.seeds(); ++seed) later.push_back(cell_of(comparison, stated.front(), first_seed_of_twin + seed));
        context.cells.note_later(later);
        throw;
      }
    };
    const std::vector<RuleArm> chosen = choose();
    double target = 0;
    for (const results::CellRecord& record : run_seeds(context, comparison, chosen.front())) target += loss_at(target_at, record) / context.seeds();
    const Raced twin = race(context, comparison, chosen.front(), target, first_seed_of_twin, 1);
    std::map<std::string, Raced> by_symbol;
    for (std::size_t a = 0; a < arms.size(); ++a)
      by_symbol.emplace(arms[a].symbol, race(context, comparison, chosen[a], target, 1, a == 0 ? 1 : horizons_of(context, comparison, chosen[a], target, tuning.seed)));
    Finding f;
    const auto arm_of = [&](const std::string& symbol) { return *std::ranges::find(arms, symbol, &RacedArm::symbol); };
    for (const RaceRatio& r : ratios) {
      const double factor = r.times ? race_step(arm_of(r.over), r.link) / race_step(arm_of(r.under), r.link) : 1;
      const std::string what = r.times ? "time on " + name_of(r.link) : "steps";
      f.measures.push_back(measure_of(what + " of " + arm_of(r.over).arm.name + " over " + arm_of(r.under).arm.name, ratio_of(by_symbol.at(r.over).steps, by_symbol.at(r.under).steps, factor), 1, "x", r.symbol));
    }
    const auto add_missing = [&](const std::string& arm, const Raced& raced, const std::string& symbol) {
      f.measures.push_back({"seeds that did not reach the target, " + arm, static_cast<double>(raced.missing), no_number, no_number, no_number, "", symbol + "_missing"});
    };
    for (const RacedArm& raced : arms) add_missing(raced.arm.name, by_symbol.at(raced.symbol), raced.symbol);
    add_missing("other dense seeds", twin, "twin");
    f.measures.push_back(measure_of("control: steps of other dense seeds", ratio_of(twin.steps, by_symbol.at(arms.front().symbol).steps, 1), 1, "x", "twin"));
    std::vector<std::vector<double>> losses;
    std::vector<std::vector<results::CellRecord>> all = {twin.records};
    Table table{"steps to the target", {"learning rate", "horizons at first", "step, contest's link (s)", "step, ordinary cards (s)"}, {}};
    for (int seed = 1; seed <= context.seeds(); ++seed) table.columns.push_back("seed " + std::to_string(seed));
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const Raced& raced = by_symbol.at(arms[a].symbol);
      all.push_back(raced.records);
      std::vector<double>& of_arm = losses.emplace_back();
      for (const results::CellRecord& record : raced.records) of_arm.push_back(final_loss(record));
      Table::Row& row = table.rows.emplace_back(Table::Row{arms[a].arm.name,
                                                           {std::stod(chosen[a].settings.at("learning-rate")), static_cast<double>(raced.horizons), race_step(arms[a], RaceLink::meter),
                                                            race_step(arms[a], RaceLink::cards)}});
      row.values.insert(row.values.end(), raced.steps.begin(), raced.steps.end());
    }
    for (Measure& control : comparison_controls(chosen, losses, entropies_of_text(all).unigram)) f.measures.push_back(std::move(control));
    f.measures.push_back({"target", target, no_number, no_number, no_number, "nats per token"});
    f.tables = {std::move(table), std::move(choice)};
    f.note = comparison.name;
    return f;
  };
  return register_claim(std::move(claim), where);
}

}  // namespace thinwire::claims::low_bandwidth_pipeline
