#include "experiments/claims/trained.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "experiments/claims/arms.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {

CellRequest cell_of(const Comparison& comparison, const RuleArm& arm, int seed) {
  CellRequest request = comparison.cell;
  request.parameters.set("seed", seed);
  request.parameters.set("plan", arm.name);
  for (const auto& [name, value] : arm.settings) request.parameters.set(name, value);
  request.tags.push_back(arm.name);
  return request;
}

std::vector<CellRequest> cells_of(const Comparison& comparison, const std::vector<RuleArm>& arms, int seeds) {
  std::vector<CellRequest> requests;
  for (const RuleArm& arm : arms)
    for (int seed = 1; seed <= seeds; ++seed) requests.push_back(cell_of(comparison, arm, seed));
  return requests;
}

std::vector<std::vector<results::CellRecord>> train(JudgeContext& context, const std::vector<CellRequest>& cells, std::size_t arms) {
  std::vector<results::CellRecord> all = context.cells.run(cells);
  std::vector<std::vector<results::CellRecord>> of(arms);
  for (std::size_t i = 0; i < all.size(); ++i) of[i * arms / all.size()].push_back(std::move(all[i]));
  return of;
}

double final_loss(const results::CellRecord& record) {
  double loss = no_number;
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (!std::isnan(row.validation_loss)) loss = row.validation_loss;
  if (std::isnan(loss)) throw RuntimeFailure("cell " + record.cell_id + " has no validation loss");
  return loss;
}

double steps_to(double loss, const results::CellRecord& record) {
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (row.validation_loss <= loss) return static_cast<double>(row.step + 1);
  return no_number;
}

std::vector<std::vector<double>> final_losses(const std::vector<std::vector<results::CellRecord>>& records) {
  std::vector<std::vector<double>> of;
  for (const std::vector<results::CellRecord>& of_arm : records) {
    of.emplace_back();
    for (const results::CellRecord& record : of_arm) of.back().push_back(final_loss(record));
  }
  return of;
}

namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

/// "a, b and c".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

const std::string diverged_row = "diverged";

/// In the place of a run that diverged: its one validation loss, the text's entropy, is the least that it lost, and comes once the text is known.
results::CellRecord stand_in(const CellRequest& request) {
  results::CellRecord record;
  record.program = request.program, record.ranks = request.ranks, record.link = request.link, record.parameters = request.parameters;
  record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  record.training.curve.push_back({record.cell_id, diverged_row, request.parameters.integer("steps") - 1, no_number, no_number});
  return record;
}
bool stands_in(const results::CellRecord& record) { return record.training.curve.size() == 1 && record.training.curve.front().plan == diverged_row; }

}  // namespace

Rule comparison_rule(const Comparison& comparison, std::vector<RuleArm> arms, const std::vector<std::string>& may_fail) {
  Rule rule = with_arms({}, {{comparison.name, comparison.cell}});  // all of them shared
  rule.settings["seed"] = "1, 2, ...: initial weights and order of the data, the same for all arms";
  rule.arms = std::move(arms);
  rule.quantities = {{"baseline", "final validation loss of the arm " + rule.arms.front().name + ", nats per token, mean over seeds with its 95 % interval by Student's t"},
                     {"worst", "the largest final validation loss of any arm and seed, nats per token" +
                                   (may_fail.empty() ? std::string()
                                                     : ", any arm but " + listed(may_fail) + ": a run of these that diverges or ends above `entropy` enters with `entropy` as its loss, for it lost at least this")},
                     {"entropy", "entropy of the training text's single bytes (unigrams), nats"}};
  rule.constants = {{"learned", 0.5, "nats per token by which the baseline must beat the unigrams, or it learned too little to compare with"}};
  rule.clauses = {{Verdict::invalid, "entropy - baseline < learned"}, {Verdict::unstable, "worst > entropy"}};
  return rule;
}

TextEntropies entropies_of_text(const std::vector<std::vector<results::CellRecord>>& records) {
  try {
    return entropies_of_cells(records);
  } catch (const UsageError& error) {
    throw Refused{error};
  }
}

std::vector<Measure> comparison_controls(const std::vector<RuleArm>& arms, const std::vector<std::vector<double>>& losses, double entropy, const std::vector<std::string>& may_fail) {
  double worst = no_number;
  for (std::size_t a = 0; a < arms.size(); ++a)
    for (const double loss : losses[a])
      if (!is_among(may_fail, arms[a].name)) worst = std::fmax(worst, loss);  // passes over NaN; a loss is a number (final_loss)
  const auto control = [](const char* name, double value, const char* symbol) { return Measure{name, value, no_number, no_number, no_number, "nats per token", symbol}; };
  return {measure_of("L(" + arms.front().name + ")", interval_of(losses.front()), no_number, "nats per token", "baseline"),
          control(may_fail.empty() ? "control: largest final loss of any arm and seed" : "control: largest final loss of any arm that may not fail", worst, "worst"),
          control("control: the text's unigram entropy", entropy, "entropy")};
}

std::vector<Table> comparison_tables(const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<std::vector<results::CellRecord>>& records) {
  Table final{"validation loss (nats per token), " + comparison.name, {}, {}}, curves{"validation loss over steps, " + comparison.name, {}, {}};
  const std::size_t seeds = records.front().size();
  for (std::size_t seed = 1; seed <= seeds; ++seed) final.columns.push_back("seed " + std::to_string(seed));
  for (std::size_t a = 0; a < arms.size(); ++a) {
    final.rows.push_back({arms[a].name, {}});
    curves.rows.push_back({arms[a].name, {}});
    std::vector<double>& curve = curves.rows.back().values;
    bool whole = true;
    for (const results::CellRecord& record : records[a]) {
      final.rows.back().values.push_back(stands_in(record) ? record.training.curve.front().validation_loss : final_loss(record));
      if (stands_in(record)) {
        whole = false;
        continue;
      }
      std::size_t at = 0;
      for (const results::TrainingCurveRow& row : record.training.curve) {
        if (std::isnan(row.validation_loss)) continue;
        if (curves.columns.size() == at) curves.columns.push_back("step " + std::to_string(row.step + 1));
        if (at == curve.size()) curve.push_back(0);
        curve[at++] += row.validation_loss / static_cast<double>(seeds);
      }
    }
    if (!whole) curve.assign(curves.columns.size(), no_number);  // a mean of the seeds that went well would flatter the arm
  }
  return {final, curves};
}

Comparison on_replicas(std::string name, int ranks, int steps) {
  constexpr int sequences = 32;
  CellRequest cell{"train_gpt", ranks, "shm", {}, 3600, {}, /*timed=*/false};
  results::Parameters& p = cell.parameters;
  for (const auto& [option, value] : std::map<std::string, std::int64_t>{{"dp", ranks}, {"layers", 4}, {"hidden", 128}, {"heads", 4}, {"seq", 64}, {"micro-batch", sequences / ranks},
                                                                         {"global-batch", sequences}, {"steps", steps}, {"warmup", steps / 5}, {"eval-interval", steps / 10}, {"eval-sequences", 256}})
    p.set(option, value);
  p.set("comm-dtype", "f32");
  p.set("learning-rate", 0.006);
  return {std::move(name), std::move(cell)};
}

LossDifference loss_difference(const std::string& symbol, const std::string& arm, const std::string& from) {
  return {symbol, {{arm, 1}, {from, -1}}};
}

namespace {

std::string text_of(const LossDifference& difference) {
  std::string text;
  for (const auto& [arm, factor] : difference.terms) {
    char size[32] = "";
    if (std::abs(factor) != 1) std::snprintf(size, sizeof size, "%.4g ", std::abs(factor));
    text += (text.empty() ? factor < 0 ? "-" : "" : factor < 0 ? " - " : " + ") + (size + ("L(" + arm + ")"));
  }
  return text;
}

std::string unit_of(LossUnit unit, const std::string& baseline) {
  return unit == LossUnit::nats ? ", final validation losses, nats per token; paired over seeds, 95 % interval by Student's t"
                                : ", final validation losses, over the mean of L(" + baseline + "); paired over seeds, 95 % interval by Student's t";
}

/// `base`: what a difference is divided by.
Interval paired_over_seeds(const LossDifference& difference, const std::vector<RuleArm>& arms, const std::vector<std::vector<double>>& losses, double base) {
  std::vector<double> of_seed(losses.front().size(), 0.0);
  for (const auto& [name, factor] : difference.terms) {
    const auto arm = static_cast<std::size_t>(std::ranges::find(arms, name, &RuleArm::name) - arms.begin());
    for (std::size_t seed = 0; seed < of_seed.size(); ++seed) of_seed[seed] += factor * losses.at(arm)[seed] / base;
  }
  return interval_of(of_seed);
}

/// What the arms of a claim ended as.
struct Trained {
  std::vector<std::vector<results::CellRecord>> records;  ///< by arm and seed, stand-ins where a run diverged
  std::string failed;                                     ///< runs of arms that may fail which diverged or ended above the entropy, in words
  std::string diverged;                                   ///< runs of the other arms that diverged, and what the first of them said
};

Trained train_all(JudgeContext& context, const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<std::string>& may_fail) {
  const auto add = [](std::string& to, const std::string& words) { to += (to.empty() ? "" : ", ") + words; };
  context.cells.prepare(cells_of(comparison, arms, context.seeds()));  // all of them at once
  Trained all;
  std::string first;
  for (const RuleArm& arm : arms) {
    std::vector<results::CellRecord>& of_arm = all.records.emplace_back();
    std::string seeds;
    for (int seed = 1; seed <= context.seeds(); ++seed) {
      const CellRequest request = cell_of(comparison, arm, seed);
      try {
        of_arm.push_back(context.cells.run_one(request));
      } catch (const ArmDiverged& run) {
        of_arm.push_back(stand_in(request));
        if (is_among(may_fail, arm.name)) continue;
        add(seeds, std::to_string(seed));
        if (first.empty()) first = run.what();
      }
    }
    if (!seeds.empty()) add(all.diverged, arm.name + (seeds.find(',') == std::string::npos ? " (seed " : " (seeds ") + seeds + ")");
  }
  if (!all.diverged.empty()) {
    all.diverged += "; the first: " + first;
    return all;
  }
  if (may_fail.empty()) return all;
  const double entropy = entropies_of_text(all.records).unigram;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    if (!is_among(may_fail, arms[a].name)) continue;
    for (std::size_t seed = 0; seed < all.records[a].size(); ++seed) {
      results::CellRecord& record = all.records[a][seed];
      const bool diverged = stands_in(record);
      if (diverged) record.training.curve.front().validation_loss = entropy;
      if (diverged || final_loss(record) > entropy)
        add(all.failed, arms[a].name + " of seed " + std::to_string(seed + 1) + (diverged ? " diverged" : " ended above the entropy"));
    }
  }
  return all;
}

/// "a, b" as a and b.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + 2) {
    to = text.find(", ", from);
    parts.push_back(text.substr(from, to == std::string::npos ? to : to - from));
  }
  return parts;
}

/// The number that it ends with.
double number_of(const std::string& text) {
  const std::size_t before = text.find_last_not_of("0123456789.e-");
  return std::stod(text.substr(before == std::string::npos ? 0 : before + 1));
}

/// What one part of Tuning::option names in an arm.
class Tuned {
 public:
  explicit Tuned(const std::string& option) : setting_(option.substr(0, option.find(':'))), parameter_(setting_.size() == option.size() ? "" : option.substr(setting_.size() + 1)) {}

  std::string of(const RuleArm& arm) const {
    const std::string& text = arm.settings.at(setting_);
    if (parameter_.empty()) return text;
    const auto [from, size] = place_in(text);
    return text.substr(from, size);
  }
  void set(RuleArm& arm, const std::string& value) const {
    std::string& text = arm.settings[setting_];
    if (parameter_.empty()) {
      text = value;
      return;
    }
    const auto [from, size] = place_in(text);
    text.replace(from, size, value);
  }

 private:
  /// Where the parameter's value begins in the last part of "NAME:key=value,...+NAME:key=value,...", and its length.
  std::pair<std::size_t, std::size_t> place_in(const std::string& text) const {
    const std::size_t plus = text.rfind('+'), part = plus == std::string::npos ? 0 : plus;
    for (const char* before : {":", ","})
      if (const std::size_t at = text.find(before + parameter_ + "=", part); at != std::string::npos) {
        const std::size_t from = at + parameter_.size() + 2;
        return {from, std::min(text.find(',', from), text.size()) - from};
      }
    throw std::logic_error("`" + text + "` has no " + parameter_ + " that could be tuned");
  }
  std::string setting_, parameter_;
};

RuleArm with_value(RuleArm arm, const std::string& option, const std::string& value) {
  const std::vector<std::string> options = parts_of(option), values = parts_of(value);
  TW_ASSERT(values.size() <= options.size(), "a value of " + option + " names as many parts at most");
  for (std::size_t i = 0; i < values.size(); ++i) Tuned(options[i]).set(arm, values[i]);
  return arm;
}

}  // namespace

std::string text_of(const Tuning& tuning) {
  std::string text;
  for (const auto& [arm, values] : tuning.values) {
    text += (text.empty() ? "" : "; ") + arm + ":";
    for (const std::string& value : values) text += parts_of(value).size() > 1 ? " (" + value + ")" : " " + value;
  }
  return "by each arm the value with the lowest final validation loss at seed " + std::to_string(tuning.seed) + ", which is none of the verdict's, of " + text;
}

Table table_of(const Tuning& tuning) {
  Table table{tuning.option + " tried at seed " + std::to_string(tuning.seed), parts_of(tuning.option), {}};
  table.columns.push_back("final validation loss (nats per token)");
  return table;
}

std::vector<RuleArm> tuned(JudgeContext& context, const Comparison& comparison, std::vector<RuleArm> arms, const Tuning& tuning, Table& table) {
  const auto with = [&](const RuleArm& arm, const std::string& value) { return with_value(arm, tuning.option, value); };
  std::vector<CellRequest> all;
  for (const RuleArm& arm : arms)
    if (const auto found = tuning.values.find(arm.name); found != tuning.values.end())
      for (const std::string& value : found->second) all.push_back(cell_of(comparison, with(arm, value), tuning.seed));
  context.cells.prepare(all);
  for (RuleArm& arm : arms) {
    const auto found = tuning.values.find(arm.name);
    if (found == tuning.values.end()) continue;
    double best = std::numeric_limits<double>::infinity();
    std::string chosen;
    for (const std::string& value : found->second) {
      double loss = std::numeric_limits<double>::infinity();
      try {
        loss = final_loss(context.cells.run_one(cell_of(comparison, with(arm, value), tuning.seed)));
      } catch (const ArmDiverged&) {  // a value that is too large
      }
      std::vector<double>& row = table.rows.emplace_back(Table::Row{arm.name, {}}).values;
      for (const std::string& part : parts_of(value)) row.push_back(number_of(part));
      row.resize(table.columns.size() - 1, no_number);  // what this arm does not tune
      row.push_back(loss);
      if (loss < best) best = loss, chosen = value;
    }
    if (chosen.empty()) throw ArmDiverged("every " + tuning.option + " that was tried for the arm " + arm.name + " diverged");
    arm = with(arm, chosen);
  }
  return arms;
}

bool register_loss_claim(LossClaim of, std::source_location where) {
  for (const std::string& name : of.may_fail)
    TW_ASSERT(std::ranges::find(of.arms.begin() + 1, of.arms.end(), name, &RuleArm::name) != of.arms.end(), name + " is an arm, and not the baseline");
  Rule rule = comparison_rule(of.comparison, of.arms, of.may_fail);
  for (const LossDifference& d : of.differences)
    rule.quantities.push_back({d.symbol, text_of(d) + unit_of(of.unit, of.arms.front().name)});
  if (!of.tuning.option.empty()) {
    for (const std::string& option : parts_of(of.tuning.option)) rule.settings.erase(option);  // no arm has what the pilot had
    rule.settings[of.tuning.option] = text_of(of.tuning);
  }
  for (const auto& [symbol, arm] : of.chosen) rule.quantities.push_back({symbol, "the number that the chosen " + of.tuning.option + " of the arm " + arm + " ends with"});
  for (const auto& [symbol, arm] : of.diverged) {
    TW_ASSERT(is_among(of.may_fail, arm), arm + " may fail");
    rule.quantities.push_back({symbol, "seeds of the arm " + arm + " whose training diverged"});
  }
  Rule& own = of.claim.rule;
  rule.settings.insert(own.settings.begin(), own.settings.end());
  rule.quantities.insert(rule.quantities.end(), own.quantities.begin(), own.quantities.end());
  rule.constants.insert(rule.constants.end(), own.constants.begin(), own.constants.end());
  rule.clauses.insert(rule.clauses.end(), own.clauses.begin(), own.clauses.end());
  rule.scatter = own.scatter, rule.otherwise = own.otherwise, rule.smallest_effect = own.smallest_effect;
  own = rule;
  of.claim.basis = Basis::training;
  of.claim.measure = [comparison = of.comparison, stated = of.arms, differences = of.differences, tuning = of.tuning, chosen = of.chosen, more = of.more, may_fail = of.may_fail, counted = of.diverged,
                      in_nats = of.unit == LossUnit::nats](JudgeContext& context) {
    Table choice = table_of(tuning);
    const auto choose = [&] {
      try {
        return tuned(context, comparison, stated, tuning, choice);
      } catch (const PlanEnds&) {
        context.cells.note_later(cells_of(comparison, stated, context.seeds()));
        throw;
      }
    };
    const std::vector<RuleArm> arms = tuning.option.empty() ? stated : choose();
    const auto [records, failed, diverged] = train_all(context, comparison, arms, may_fail);
    if (!diverged.empty())  // an arm that may not: what the others ended with is shown, and not judged
      return Finding{.measures = {}, .tables = comparison_tables(comparison, arms, records), .note = comparison.name + "; diverged: " + diverged, .instead = Verdict::unstable};
    std::vector<std::vector<double>> losses = final_losses(records);
    const double entropy = entropies_of_text(records).unigram;
    for (std::size_t a = 0; a < arms.size(); ++a)
      for (double& loss : losses[a])
        if (is_among(may_fail, arms[a].name)) loss = std::min(loss, entropy);
    Finding f;
    const double base = interval_of(losses.front()).mean;
    for (const LossDifference& d : differences) {
      const Interval of_loss = paired_over_seeds(d, arms, losses, in_nats ? 1 : base);
      f.measures.push_back(measure_of(text_of(d) + (in_nats ? "" : ", of the baseline's loss"), of_loss, no_number, in_nats ? "nats per token" : "", d.symbol));
      if (in_nats) continue;
      const auto of_perplexity = [&](double part) { return std::expm1(part * base); };
      f.measures.push_back({"the same of the perplexity per byte: exp(" + text_of(d) + ") - 1", of_perplexity(of_loss.mean), of_perplexity(of_loss.low), of_perplexity(of_loss.high), no_number, ""});
    }
    for (const auto& [symbol, name] : chosen) {
      const RuleArm& arm = *std::ranges::find(arms, name, &RuleArm::name);
      f.measures.push_back({"chosen " + tuning.option + " of " + name, number_of(Tuned(parts_of(tuning.option).back()).of(arm)), no_number, no_number, no_number, "", symbol});
    }
    for (const auto& [symbol, name] : counted) {
      const auto arm = static_cast<std::size_t>(std::ranges::find(arms, name, &RuleArm::name) - arms.begin());
      f.measures.push_back({"seeds of " + name + " that diverged", static_cast<double>(std::ranges::count_if(records[arm], stands_in)), no_number, no_number, no_number, "", symbol});
    }
    for (Measure& control : comparison_controls(arms, losses, entropy, may_fail)) f.measures.push_back(std::move(control));
    f.tables = comparison_tables(comparison, arms, records);
    if (!choice.rows.empty()) f.tables.push_back(std::move(choice));
    f.note = comparison.name + (failed.empty() ? "" : "; counted as ending at the text's entropy, having lost at least this: " + failed);
    if (more) more(context, arms, records, f);
    return f;
  };
  return register_claim(std::move(of.claim), where);
}

}  // namespace thinwire::claims
