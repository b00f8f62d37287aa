// sharded_compression.C7 and C8: weights that are gathered as coded differences to the last copy (docs/papers/sharded_compression.md, "The algorithms, as they are to be
// built"), on the weights of a training.
//   e <- (e + update) - Q(e + update).  With |update| <= D in a group and largest magnitude a of what is coded, int4 errs by a/14 (nearest) or a/7 (stochastic), so
//   |e| <= (|e| + D)/14 gives D/13, and (|e| + D)/7 gives D/6, for ever. Groups are rows here, D is the largest update of the row so far.
// Both ends begin with equal weights: what passes the codec is how far the weights have moved. Controls: weights coded directly err by a/14 of their own size always, and
// coded updates without the memory drift beyond D.
#include <algorithm>
#include <bit>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/kept/kept.h"
#include "experiments/claims/sharded_compression/cells/gathered_weights.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::int64_t steps = 2000, drift_step = 100, agree_steps = 100;
constexpr const char *nearest = "group:bits=4,group=2048", *stochastic = "group:bits=4,group=2048,round=stochastic";
constexpr double rounding = 0x1p-22;  // of the largest weight: f32 sums

std::string with_memory(const char* codec) { return std::string(codec) + "+ef21"; }

Values moved(const WeightMatrix& w) {
  Values x(w.main.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = w.main[i] - w.start[i];
  return x;
}
Values placed_at(const Values& start, const Values& moved) {
  Values x(start.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = start[i] + moved[i];
  return x;
}
double largest(std::span<const float> x) {
  double most = 0;
  for (const float v : x) most = std::max(most, std::abs(double{v}));
  return most;
}

/// Largest over rows of (largest |copy - weights| of the row) / of(row).
template <typename Of>
double worst_row(const WeightMatrix& w, const Values& copy, Of of) {
  double worst = 0;
  const auto columns = static_cast<std::size_t>(w.columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(w.rows); ++row) {
    double error = 0;
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) error = std::max(error, std::abs(double{copy[i]} - w.main[i]));
    if (error > 0) worst = std::max(worst, error / of(row));
  }
  return worst;
}

/// What is remembered of one matrix.
struct Followed {
  std::vector<double> most_update;  ///< D of each row
  Values drifted;                   ///< sum of coded updates
};

/// Of one step, over all matrices.
struct Errors {
  double nearest = 0, stochastic = 0;              ///< over their bounds
  double of_update[3] = {};                        ///< over D: nearest, stochastic, coded updates
  double direct = 0;                               ///< over a/14
};

class Watch {
 public:
  Values see(std::size_t number, const WeightMatrix& w, std::int64_t step) {
    if (number == 0) now_ = {};
    if (number == all_.size()) all_.push_back({std::vector<double>(static_cast<std::size_t>(w.rows), 0.0), Values(w.main.size(), 0.0f)});
    Followed& f = all_[number];
    const auto columns = static_cast<std::size_t>(w.columns);
    const auto row_of = [&](const Values& x, std::size_t row) { return std::span<const float>(x).subspan(row * columns, columns); };
    for (std::size_t row = 0; row < f.most_update.size(); ++row) f.most_update[row] = std::max(f.most_update[row], largest(row_of(w.update, row)));
    const auto update = [&](std::size_t row) { return f.most_update[row]; };
    const auto bound = [&](double share) { return [&, share](std::size_t row) { return f.most_update[row] / share + rounding * largest(row_of(w.main, row)); }; };

    const Values x = moved(w);
    Values copy;
    const auto follow = [&](TwoRankGather& gather, double share, double& of_bound, double& of_update) {
      const std::array<Values, 2> copies = gather.gather(w, x, step);
      for (std::size_t i = 0; i < x.size(); ++i) different_ += std::bit_cast<std::uint32_t>(copies[0][i]) != std::bit_cast<std::uint32_t>(copies[1][i]);
      copy = placed_at(w.start, copies[0]);
      of_bound = std::max(of_bound, worst_row(w, copy, bound(share)));
      of_update = std::max(of_update, worst_row(w, copy, update));
    };
    follow(stochastic_, 6, now_.stochastic, now_.of_update[1]);
    follow(nearest_, 13, now_.nearest, now_.of_update[0]);

    MessageKey key;
    key.tensor = w.id, key.step = step;
    const Values coded = updates_.arrives(w.update, key, w.rows);
    for (std::size_t i = 0; i < coded.size(); ++i) f.drifted[i] += coded[i];
    now_.of_update[2] = std::max(now_.of_update[2], worst_row(w, placed_at(w.start, f.drifted), update));
    now_.direct = std::max(now_.direct, worst_row(w, direct_.arrives(w.main, key, w.rows), [&](std::size_t row) { return largest(row_of(w.main, row)) / 14; }));
    return copy;  // of the nearest: with it the model computes
  }
  const Errors& errors() const { return now_; }
  std::int64_t different() const { return different_; }

 private:
  TwoRankGather nearest_{with_memory(nearest)}, stochastic_{with_memory(stochastic)};
  Wire updates_{stochastic}, direct_{nearest};
  std::vector<Followed> all_;
  Errors now_;
  std::int64_t different_ = 0;
};

const std::vector<std::string> row_columns = {"step", "differences, nearest (D)", "differences, stochastic (D)", "coded updates (D)", "direct (a/14)"};

Numbers follow_weights() {
  Watch watch;
  double near = 0, drawn = 0, drift = 0, direct_least = INFINITY, direct_most = 0;
  std::vector<double> rows;
  const auto end_of = [&](std::int64_t step) {
    const Errors& e = watch.errors();
    near = std::max(near, e.nearest), drawn = std::max(drawn, e.stochastic);
    direct_least = std::min(direct_least, e.direct), direct_most = std::max(direct_most, e.direct);
    if (step == drift_step) drift = e.of_update[2];
    if (step == 1 || step == 10 || step == 100 || step == 1000 || step == steps)
      rows.insert(rows.end(), {static_cast<double>(step), e.of_update[0], e.of_update[1], e.of_update[2], e.direct});
  };
  train_with_decoded_weights(steps, [&](std::size_t number, const WeightMatrix& matrix, std::int64_t step) {
    if (number == 0 && step > 1) end_of(step - 1);
    return watch.see(number, matrix, step);
  });
  end_of(steps);
  return {{"near", {near}}, {"drawn", {drawn}}, {"different", {static_cast<double>(watch.different())}}, {"drift", {drift}}, {"direct_least", {direct_least}}, {"direct_most", {direct_most}}, {"rows", rows}};
}

Finding measure_error(JudgeContext& context) {
  const Numbers numbers = kept_numbers(context, "weight_differences", 1, "2000 steps whose weights pass codecs, in this process (a minute)", follow_weights);
  Table table{"largest error of weights", row_columns, {}};
  const std::vector<double>& rows = numbers.at("rows");
  for (auto row = rows.begin(); row != rows.end(); row += static_cast<std::ptrdiff_t>(row_columns.size()))
    table.rows.push_back({"step " + std::to_string(static_cast<int>(*row)), {row, row + static_cast<std::ptrdiff_t>(row_columns.size())}});
  Finding found;
  const auto add = [&](const std::string& name, double margin, const std::string& unit, const std::string& symbol) {
    found.measures.push_back({name, numbers.at(symbol).at(0), no_number, no_number, margin, unit, symbol});
  };
  add("largest error of differences over D/13, nearest", 1, "of the bound", "near");
  add("largest error of differences over D/6, stochastic", 1, "of the bound", "drawn");
  add("elements of which two ranks' copies differ, all steps", 0, "", "different");
  add("control: error of coded updates without memory after 100 steps", 1, "D", "drift");
  add("control: error of directly coded weights over a/14, least step", 0.8, "", "direct_least");
  add("control: the same, most", 1.2, "", "direct_most");
  found.tables = {std::move(table)};
  return found;
}

/// SDP4Bit's text: model += deq(Q(w - model)), every rank alike.
Finding measure_agreement(JudgeContext&) {
  std::int64_t compared = 0, different = 0;
  TwoRankGather gathers[2] = {TwoRankGather(with_memory(nearest)), TwoRankGather(with_memory(stochastic))};
  TwoRankGather quantisers[2] = {TwoRankGather(nearest), TwoRankGather(stochastic)};
  std::vector<std::array<Values, 2>> models;
  train_with_decoded_weights(agree_steps, [&](std::size_t number, const WeightMatrix& w, std::int64_t step) {
    if (number == models.size()) models.push_back({Values(w.main.size(), 0.0f), Values(w.main.size(), 0.0f)});
    for (std::size_t k = 0; k < 2; ++k) {
      const std::array<Values, 2> copies = gathers[k].gather(w, w.main, step);
      Values& model = models[number][k];
      Values d(model.size());
      for (std::size_t i = 0; i < d.size(); ++i) d[i] = w.main[i] - model[i];
      const Values decoded = quantisers[k].gather(w, d, step)[0];
      for (std::size_t i = 0; i < d.size(); ++i) model[i] += decoded[i];
      for (const Values& copy : copies)
        for (std::size_t i = 0; i < d.size(); ++i) ++compared, different += std::bit_cast<std::uint32_t>(copy[i]) != std::bit_cast<std::uint32_t>(model[i]);
    }
    return models[number][0];
  });
  Finding found;
  found.measures = {{"weights of all steps and ranks that differ in a bit", static_cast<double>(different), no_number, no_number, 0, "", "different"},
                    {"weights compared", static_cast<double>(compared), no_number, no_number, no_number, "", "compared"}};
  return found;
}

const bool error = register_claim(
    {.id = "sharded_compression.C7",
     .statement = "The error of coded weight differences does not accumulate.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"training", describe_weights_training()}, {"steps", std::to_string(steps)}, {"ranks", "2, each with half of the rows"}, {"differences", std::string(nearest) + "+ef21 and round=stochastic"},
                           {"groups", "rows; D: the largest update of the row so far"}},
              .quantities = {{"near", "largest |error| of a row over D/13 + 2^-22 of its largest weight, nearest codes, all steps"},
                             {"drawn", "the same over D/6, stochastic codes, on the same weights"},
                             {"different", "elements of which the two ranks' copies differ in a bit, all steps"},
                             {"drift", "largest |error| of a row over D after 100 steps, updates coded without memory, stochastic"},
                             {"direct_least", "largest |error| of a row over a/14, weights coded directly, nearest, the least step; a: the row's largest weight"},
                             {"direct_most", "the same, the most"}},
              .constants = {{"bound", 1, "of the bound"}, {"beyond", 1, "D"}, {"low", 0.8, "of a/14"}, {"high", 1.2, "of a/14"}},
              .clauses = {{Verdict::invalid, "drift <= beyond || direct_least < low || direct_most > high"}, {Verdict::pass, "near <= bound && drawn <= bound && different == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure_error});
const bool agreement = register_claim(
    {.id = "sharded_compression.C8",
     .statement = "Coding weight differences is EF21 on the weights.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"training", describe_weights_training()}, {"steps", std::to_string(agree_steps)}, {"ranks", "2, each with half of the rows"}, {"codecs", std::string(nearest) + " and round=stochastic, +ef21"},
                           {"text", "model += decoded(Q(w - model)), from zero, with the codec without memory"}},
              .quantities = {{"different", "weights of which a rank's copy under +ef21 has another bit than the text's model, all steps and ranks, both codecs"}, {"compared", "weights compared"}},
              .clauses = {{Verdict::pass, "different == 0 && compared > 0"}},
              .otherwise = Verdict::fail},
     .measure = measure_agreement});

}  // namespace
}  // namespace thinwire::claims
