// low_bandwidth_pipeline.C22: how long a micro-batch must compute at least for a pipeline that sends a hundredth of the
// bytes over 80 Mbit/s to take no more than 1.1 of the dense one's step over 100 Gbit/s. Walked on ordinary cards, whose
// latency propagates; then both steps are taken by sleeping ranks on such links. The paper's own times of computing are
// not readable, so the answer is a time and no verdict on theirs.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/statistics.h"
#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

constexpr int micro_batches = 64;
constexpr std::int64_t dense_bytes = 16777216, subspace_bytes = dense_bytes / 100;
constexpr double allowed = 1.1;

struct Place {
  std::string name, link;
  Wire wire;
  std::int64_t bytes;
};
const std::array<Place, 2> places = {
    Place{"dense, 100 Gbit/s", "emulated:100gbit,latency=50us", {.rate = 100e9, .latency = 50e-6, .latency_occupies = false}, dense_bytes},
    Place{"a hundredth, 80 Mbit/s", "emulated:80mbit,latency=20ms", {.rate = 80e6, .latency = 0.02, .latency_occupies = false}, subspace_bytes}};

/// Forward of a micro-batch through a stage; backward takes twice as long.
Passes passes_of(double forward) { return {forward, 2 * forward, forward, 2 * forward, 0}; }
double walked(const Place& place, double forward) {
  return walked_step(make_schedule("1f1b", stages, micro_batches), place.wire, place.bytes, passes_of(forward));
}
double ratio_at(double forward) { return walked(places[1], forward) / walked(places[0], forward); }

/// Whole microseconds.
double least_forward() {
  static const double least = [] {
    double low = 1e-5, high = 10;
    for (int i = 0; i < 60; ++i) {
      const double middle = std::sqrt(low * high);
      (ratio_at(middle) > allowed ? low : high) = middle;
    }
    return std::ceil(high * 1e6) * 1e-6;
  }();
  return least;
}

CellRequest request_of(const Place& place) {
  CellRequest r{"bench_pipeline", stages, place.link, {}, 1200, {"low_bandwidth_pipeline"}};
  const Passes passes = passes_of(least_forward());
  results::Parameters& p = r.parameters;
  p.set("micro-batches", micro_batches), p.set("bytes", place.bytes), p.set("steps", 1), p.set("windows", 4);
  p.set("forward-us", passes.forward * 1e6), p.set("backward-us", passes.backward * 1e6);
  return r;
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const Place& place : places) all.push_back({place.name, request_of(place)});
  return all;
}

Finding measure(JudgeContext& context) {
  const double forward = least_forward();
  Table table{"a step (s)", {"walked", "measured", "distance", "windows apart"}, {}};
  std::array<double, 2> seconds{};
  double apart = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const SleptStep step = slept(context.cells.run_one(request_of(places[i])), 1);
    seconds[i] = step.seconds, apart = std::max(apart, step.spread);
    const double model = walked(places[i], forward);
    table.rows.push_back({places[i].name, {model, step.seconds, step.seconds / model - 1, step.spread}});
  }
  Finding f;
  f.measures = {{"least forward pass of a micro-batch through a stage", 1e3 * forward, no_number, no_number, no_number,
                 "ms", "least"},
                {"measured ratio of both steps there, over 1.1, - 1", seconds[1] / seconds[0] / allowed - 1, no_number,
                 no_number, 0.03, "", "off"},
                {"control: walked ratio with passes of half that time", ratio_at(forward / 2), no_number, no_number,
                 allowed, "x", "control"},
                {"largest over smallest of three windows - 1, the larger", apart, no_number, no_number, 0.01,
                 "of the step", "apart"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_bandwidth_pipeline.C22",
     .statement = "With a 100x subspace codec, 80 Mbit/s train as fast as 100 Gbit/s.",
     .provenance = "read: abstract of 2506.01260; derived (from which time of computing on)",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .rule = with_arms(
         {.settings = {{"schedule", "1F1B, 8 stages, 64 micro-batches, backward twice as long as forward"},
                       {"link", "ordinary cards: 100 Gbit/s and 50 us; 80 Mbit/s and 20 ms"}},
          .quantities = {{"least",
                          "least forward pass of a micro-batch through a stage at which the walked step over 80 Mbit/s, a "
                          "hundredth of the bytes, is at most 1.1 of that over 100 Gbit/s, ms"},
                         {"off", "ratio of the two steps of sleeping ranks with such passes, over 1.1, - 1"},
                         {"control", "walked ratio with passes of half that time"},
                         {"apart", "largest over smallest of three windows - 1, the larger of both"}},
          .constants = {{"near", 0.03, "of the ratio"},
                        {"allowed", allowed, "x: as fast"},
                        {"steady", 0.01, "of the step"},
                        {"none", 0, "ms"}},
          .clauses = {{Verdict::invalid, "control <= allowed || least <= none"},
                      {Verdict::not_decidable, "apart > steady"},
                      {Verdict::confirmed, "abs(off) <= near"}},
          .otherwise = Verdict::not_reproduced,
          .smallest_effect = "near"},
         requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
