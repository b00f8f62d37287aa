// tensor_parallel.C6 (docs/papers/tensor_parallel.md, "How timing claims are judged"): what the authors' machine may have been. The papers
// say which cards it had, not what they reached; so the cost model is asked over a box of machines and of what is not said of the runs, and
// only points are kept that give the published 1-D step.
#pragma once

#include <functional>
#include <vector>

#include "experiments/claims/published.h"
#include "experiments/claims/rule/rule.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire::claims::tensor_parallel {

constexpr double layers = 24;           ///< Optimus' benchmark default; those of the 3-D paper's runs are not known
constexpr double calibration_band = 0.25;

struct Assumption {
  GridMachine machine;
  double seq = 512;
  BroadcastForm broadcast = BroadcastForm::pipelined;
  GatherPolicy gather = GatherPolicy::keep;
  bool recompute = true;  ///< activation checkpointing, also Optimus' default
};

/// F in [5, `tflops_high`] TFLOP/s, link in [1, 25] GB/s, latency in [5, 50] us, s in {512, 1024}, broadcasts pipelined and along trees,
/// the three backward policies; fp32, 24 layers.
std::vector<Assumption> machine_box(double tflops_high = 15.7);

/// A row of a table: how many ranks under which scheme, and the sizes.
struct SizedRun {
  GridShape shape;
  double batch = 0, hidden = 0;
};
/// Seconds per sequence of the model's 24 layers: forward alone, or the step.
double forward_seconds(const Assumption& a, const SizedRun& run);
double step_seconds(const Assumption& a, const SizedRun& run);

/// Those of `box` whose step of `run` is within 25 % of `seconds` per sequence; and, so that the mesh of rates decides nothing, the machines
/// whose rate gives exactly 25 % less or more.
std::vector<Assumption> calibrated(const std::vector<Assumption>& box, const SizedRun& run, double seconds);
/// `a` with the link's rate at which the step of `run` takes exactly `seconds` per sequence; rate 0 where none does.
Assumption fitted_link(Assumption a, const SizedRun& run, double seconds);

struct Spread {
  double low = no_number, high = no_number;
  void add(double value);
};
Spread spread_of(const std::vector<Assumption>& points, const std::function<double(const Assumption&)>& value);
/// "pipelined, keep, s = 512, 12 TFLOP/s, 3.3 GB/s, 15 us".
std::string describe(const Assumption& a);

/// Two speed-ups are asked for at once (C6, C12b): of one machine, and over all.
struct PairOfRatios {
  Assumption nearest;             ///< the point whose worse ratio is relatively nearest to the claimed one
  double first = no_number, second = no_number, distance = no_number;  ///< of that point
  Spread first_range, second_range;
};
PairOfRatios pair_of_ratios(const std::vector<Assumption>& points, const std::function<double(const Assumption&)>& first, double claimed_first,
                            const std::function<double(const Assumption&)>& second, double claimed_second);
/// What is asked of `first`, `second` and `distance`: both within a band on one machine; else both above 1 on all, or one at most 1 on all;
/// else what decides is not known of the authors' runs.
Rule pair_rule(const std::string& first, const std::string& second);
/// Its measures under names for people; margins are the claimed ratios.
std::vector<Measure> measures_of(const PairOfRatios& pair, const std::string& name_first, double claimed_first, const std::string& name_second, double claimed_second);

/// Terms of the model in the claims that ask the box of machines: M1's check covers neither.
inline constexpr const char* not_validated_terms =
    "M1 validates, on 4 to 16 ranks at 1 Gbit/s, messages with SUMMA's blocks forwarded ahead along chains (chain_ahead) and products timed on one rank; here broadcasts are "
    "pipelined or along trees and products are operations over a stated rate (TFLOP/s)";
/// Of the claims that rest on them.
inline PastChange became_model_only() {
  return {"2026-11-22", "MODEL ONLY, whatever the clauses say; their verdict stands in the reason", "broadcast and FLOP terms are not validated for this use; the numbers were known"};
}

/// The 64-rank runs of the 3-D paper's table of weak scaling, and the 1-D step that calibrates the box.
struct WeakScaling {
  explicit WeakScaling(const Published& published) : published_(published) {}
  static constexpr const char* artifact = "weak scaling (Table 1)";
  std::vector<std::string> rows() const { return published_.rows("3-D", artifact); }
  /// "1-D, 64 GPUs": its scheme, ranks, batch and hidden size.
  SizedRun run(const std::string& row) const;
  double number(const std::string& row, const std::string& column) const { return published_.read("3-D", artifact, row, column); }
  double average(const std::string& row) const { return number(row, "average step time"); }
  /// Forward and backward over the batch, by the row's own times.
  double own_average(const std::string& row) const { return (number(row, "forward time") + number(row, "backward time")) / number(row, "batch size"); }

 private:
  const Published& published_;
};

}  // namespace thinwire::claims::tensor_parallel
