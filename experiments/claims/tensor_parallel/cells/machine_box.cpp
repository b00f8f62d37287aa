#include "experiments/claims/tensor_parallel/cells/machine_box.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace thinwire::claims::tensor_parallel {
namespace {

constexpr int speeds = 12, rates = 97;
constexpr double tflops_low = 5, link_low = 1, link_high = 25, both_within = 0.15;

GridCost layer_of(const Assumption& a, const SizedRun& run) {
  GridCostOptions options;
  options.gather = a.gather, options.broadcast = a.broadcast, options.vectors = true;
  return layer_cost(run.shape, {run.batch, a.seq, run.hidden, 1}, options);
}

}  // namespace

std::vector<Assumption> machine_box(double tflops_high) {
  std::vector<Assumption> box;
  for (int f = 0; f < speeds; ++f)
    for (int r = 0; r < rates; ++r)
      for (const double latency : {5.0, 15.0, 50.0})
        for (const double seq : {512.0, 1024.0})
          for (const BroadcastForm broadcast : {BroadcastForm::pipelined, BroadcastForm::tree})
            for (const GatherPolicy gather : {GatherPolicy::keep, GatherPolicy::again, GatherPolicy::again_literally})
              box.push_back({{latency, link_low * std::pow(link_high / link_low, r / (rates - 1.0)), tflops_low + (tflops_high - tflops_low) * f / (speeds - 1), 4},
                             seq, broadcast, gather});
  return box;
}

double forward_seconds(const Assumption& a, const SizedRun& run) { return layers * seconds_of(a.machine, layer_of(a, run).forward) / run.batch; }
double step_seconds(const Assumption& a, const SizedRun& run) { return layers * seconds_of(a.machine, layer_of(a, run).step(a.recompute)) / run.batch; }

std::vector<Assumption> calibrated(const std::vector<Assumption>& box, const SizedRun& run, double seconds) {
  std::vector<Assumption> kept;
  std::copy_if(box.begin(), box.end(), std::back_inserter(kept),
               [&](const Assumption& a) { return std::abs(step_seconds(a, run) / seconds - 1) <= calibration_band; });
  for (const Assumption& a : box) {
    if (a.machine.gigabytes_per_second != link_low) continue;  // once for each of the other choices
    for (const double edge : {1 - calibration_band, 1 + calibration_band})
      if (const Assumption at = fitted_link(a, run, edge * seconds); at.machine.gigabytes_per_second >= link_low && at.machine.gigabytes_per_second <= link_high) kept.push_back(at);
  }
  return kept;
}

Assumption fitted_link(Assumption a, const SizedRun& run, double seconds) {
  // The time is linear in the inverse rate.
  a.machine.gigabytes_per_second = 1;
  const double at_one = step_seconds(a, run);
  a.machine.gigabytes_per_second = 2;
  const double bytes = 2 * (at_one - step_seconds(a, run)), rest = at_one - bytes;
  a.machine.gigabytes_per_second = seconds > rest ? bytes / (seconds - rest) : 0;
  return a;
}

void Spread::add(double value) {
  low = std::isnan(low) ? value : std::min(low, value);
  high = std::isnan(high) ? value : std::max(high, value);
}

Spread spread_of(const std::vector<Assumption>& points, const std::function<double(const Assumption&)>& value) {
  Spread s;
  for (const Assumption& a : points) s.add(value(a));
  return s;
}

std::string describe(const Assumption& a) {
  char text[160];
  std::snprintf(text, sizeof text, "%s broadcasts, gather %s, s = %.0f, %.3g TFLOP/s, %.3g GB/s, %.0f us", name_of(a.broadcast).c_str(), name_of(a.gather).c_str(), a.seq,
                a.machine.tflops, a.machine.gigabytes_per_second, a.machine.latency_us);
  return text;
}

PairOfRatios pair_of_ratios(const std::vector<Assumption>& points, const std::function<double(const Assumption&)>& first, double claimed_first,
                            const std::function<double(const Assumption&)>& second, double claimed_second) {
  if (points.empty()) throw UsageError("no machine of the box gives the published 1-D step; there is nothing to judge by");
  PairOfRatios result;
  for (const Assumption& a : points) {
    const double one = first(a), two = second(a);
    const double distance = std::max(std::abs(one / claimed_first - 1), std::abs(two / claimed_second - 1));
    if (!(distance >= result.distance)) result.nearest = a, result.first = one, result.second = two, result.distance = distance;
    result.first_range.add(one), result.second_range.add(two);
  }
  return result;
}

Rule pair_rule(const std::string& first, const std::string& second) {
  const std::string on = ", on the machine that is nearest to both published ratios; low and high: smallest and largest over all machines that give the published 1-D step";
  return {.quantities = {{"first", first + on}, {"second", second + on}, {"distance", "the larger relative distance of the two from the published ratios, on that machine"}},
          .constants = {{"within", both_within, "of a ratio: section 9's band"},
                        {"even", 1, "x: neither is faster"},
                        {"worth", 0.05, "of a step: a smaller difference is not worth naming"}},
          .clauses = {{Verdict::confirmed, "distance <= within && first >= even + worth && second >= even + worth"},
                      {Verdict::not_reproduced, "first.high <= even || second.high <= even"},
                      {Verdict::direction_only, "first.low > even && second.low > even"}},
          .otherwise = Verdict::not_decidable,
          .smallest_effect = "worth"};
}

std::vector<Measure> measures_of(const PairOfRatios& pair, const std::string& name_first, double claimed_first, const std::string& name_second, double claimed_second) {
  return {{name_first, pair.first, pair.first_range.low, pair.first_range.high, claimed_first, "x", "first"},
          {name_second, pair.second, pair.second_range.low, pair.second_range.high, claimed_second, "x", "second"},
          {"distance of the nearest machine from both", pair.distance, no_number, no_number, both_within, "of the ratio", "distance"}};
}

SizedRun WeakScaling::run(const std::string& row) const {
  const std::string scheme = row.substr(0, row.find(','));
  const int ranks = std::stoi(row.substr(row.find(' ') + 1));
  const GridKind kind = scheme == "1-D" ? GridKind::one_d : scheme == "2-D" ? GridKind::two_d : GridKind::three_d;
  return {grid_of(kind, ranks), number(row, "batch size"), number(row, "hidden size")};
}

}  // namespace thinwire::claims::tensor_parallel
