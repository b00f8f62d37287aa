// Section 9, C6: what the authors' machine may have been. The papers say which cards it had, not what they reached; so the cost model is
// asked over a box of machines and of what is not said of the runs, and only points are kept that give the published 1-D step.
#pragma once

#include <functional>
#include <vector>

#include "experiments/claims/published.h"
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

/// Two speed-ups are asked for at once (C6, C12). CONFIRMED iff one point gives both within 15 %, REFUTED iff one of them is at most 1 at
/// all points, DIRECTION ONLY iff both are above 1 at all points, else NOT DECIDABLE: what decides is not known of the authors' runs.
struct PairOfRatios {
  Verdict verdict = Verdict::not_decidable;
  Assumption nearest;             ///< the point whose worse ratio is relatively nearest to the claimed one
  double first = no_number, second = no_number, distance = no_number;  ///< of that point
  Spread first_range, second_range;
};
PairOfRatios judge_pair(const std::vector<Assumption>& points, const std::function<double(const Assumption&)>& first, double claimed_first,
                        const std::function<double(const Assumption&)>& second, double claimed_second);

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
