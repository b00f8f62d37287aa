#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/statistics.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

constexpr int windows_that_count = 3;

Passes split(double both, double both_of_last) {
  return {both / 3, 2 * both / 3, both_of_last / 3, 2 * both_of_last / 3, 0.02};
}

}  // namespace

const std::vector<Baseline>& baselines() {
  static const std::vector<Baseline> all = {
      {"dense bf16", 64, 16777216, 100.4750, split(1.66e-3, 7.92e-3)},
      {"subspace network", 32, 5275648, 19.8890, split(4.34e-3, 18.9e-3)}};
  return all;
}

CellRequest sleeping(int pipeline_stages, int micro_batches, std::int64_t message_bytes, const Passes& passes,
                     double faster, std::int64_t smaller, int steps) {
  TW_ASSERT(message_bytes % smaller == 0, "the smaller message is a whole number of bytes");
  const double rate = contest.rate * faster /
                      static_cast<double>(smaller);  // of a small message the header is more, by 1e-4 at most
  CellRequest r{"bench_pipeline",
                pipeline_stages,
                "emulated:" + results::to_text(rate / 1e6) +
                    "mbit,latency=" + results::to_text(contest.latency / faster * 1e3) + "ms,meter=inbound",
                {},
                1200,
                {"low_bandwidth_pipeline"}};
  results::Parameters& p = r.parameters;
  p.set("micro-batches", micro_batches), p.set("bytes", message_bytes / smaller), p.set("steps", steps),
      p.set("windows", windows_that_count + 1);
  const auto time = [&](const char* name, double seconds) {
    if (seconds > 0) p.set(name, seconds / faster * 1e6);
  };
  time("forward-us", passes.forward), time("backward-us", passes.backward),
      time("last-forward-us", passes.last_forward), time("last-backward-us", passes.last_backward);
  time("optimizer-us", passes.optimizer);
  return r;
}

SleptStep slept(const results::CellRecord& record, double faster) {
  require_measured({&record, 1});
  std::vector<double> us;
  for (const results::SampleRow& sample : record.samples) us.push_back(sample.total_us);
  if (us.size() < windows_that_count) return {};
  us.erase(us.begin(), us.end() - windows_that_count);  // the first window never counts
  return {median(us) * 1e-6 * faster, *std::ranges::max_element(us) / *std::ranges::min_element(us) - 1};
}

bool register_slept(SleptSteps of, std::source_location where) {
  constexpr double near = 0.01;
  of.claim.basis = Basis::emulated_link;
  of.claim.from = Profile::standard;
  of.claim.rule = with_arms(
      {.settings = {{"times", of.times}},
       .quantities = {{"step", of.step}, {"apart", of.apart}},
       .constants = {{"near", near, "of the step"}},
       .clauses = {{Verdict::not_decidable, "apart > near"}, {Verdict::confirmed, "abs(step) <= near"}},
       .otherwise = Verdict::not_reproduced,
       .smallest_effect = "near"},
      of.cells);
  Claim claim = of.claim;
  claim.measure = [of = std::move(of)](JudgeContext& context) {
    Finding f;
    Table table = of.table;
    double farthest = 0, apart = 0;
    for (std::size_t i = 0; i < of.cells.size(); ++i) {
      const SleptStep step = slept(context.cells.run_one(of.cells[i].request), of.faster);
      const double measured = step.seconds / of.unit, distance = measured / of.expected[i] - 1;
      if (std::isnan(distance) || std::abs(distance) > std::abs(farthest)) farthest = distance;
      apart = std::max(apart, step.spread);
      table.rows.push_back({of.cells[i].name, {measured, of.expected[i], distance, step.spread}});
    }
    f.measures = {{of.step_name, farthest, no_number, no_number, near, "of the step", "step"},
                  {of.apart_name, apart, no_number, no_number, near, "of the step", "apart"}};
    f.tables = {std::move(table)};
    return f;
  };
  return register_claim(std::move(claim), where);
}

}  // namespace thinwire::claims::low_bandwidth_pipeline
