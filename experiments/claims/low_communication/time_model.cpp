// low_communication.C22: the page's time model against measured steps of four replicas on two emulated links,
// and the rate from which Streaming DiLoCo's messages are hidden. What a step takes without its exchange is
// measured, and so are codecs; the model says the rest.
#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/low_communication/cells/step_times.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

constexpr std::array rates = {0.1, 1.0};  ///< Gbit/s
constexpr double hidden_part = 0.02, rate_band = 0.1;
constexpr const char* streaming = "Streaming DiLoCo, overlap 2";

/// The two rates around that at which the model says that an inner step is `hidden_part` longer.
std::array<double, 2> rates_around(double inner) {
  const double at = rate_for(timed_method(streaming), hidden_part, inner);
  const auto whole = [](double gbps) { return std::round(gbps * 1e4) / 1e4; };
  return {whole(at * (1 - rate_band)), whole(at * (1 + rate_band))};
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const TimedMethod& method : timed_methods()) {
    all.push_back({method.name + ", no exchange", timed_cell(method, 0)});
    for (const double gbps : rates)
      all.push_back({method.name + ", " + results::to_text(gbps) + " Gbit/s", timed_cell(method, gbps)});
  }
  return all;
}

bool badly(const std::vector<results::CellRecord>& records, Finding& f) {
  for (const results::CellRecord& record : records) {
    if (measured_well(record)) continue;
    f.instead = Verdict::skipped;
    f.note = "a link was not measured well: " + reason_of(record);
    return true;
  }
  return false;
}

Finding measure(JudgeContext& context) {
  require_model_of_cells();
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Finding f;
  if (badly(records, f)) return f;
  Table table{"mean step (ms)", {"Gbit/s", "without its exchange", "codecs", "modelled exchange", "modelled", "measured", "distance"}, {}};
  double farthest = 0, inner_of_streaming = no_number;
  std::size_t next = 0;
  const auto add = [&](const TimedMethod& method, double gbps, const StepTime& alone, const StepTime& step) {
    const double exchange = modelled_exchange(method, gbps, alone.seconds),
                 modelled = alone.seconds + step.codecs + exchange, distance = step.seconds / modelled - 1;
    table.rows.push_back({method.name,
                          {gbps, 1e3 * alone.seconds, 1e3 * step.codecs, 1e3 * exchange, 1e3 * modelled,
                           1e3 * step.seconds, distance}});
    return distance;
  };
  for (const TimedMethod& method : timed_methods()) {
    const StepTime alone = step_time(records[next++]);
    if (method.name == streaming) inner_of_streaming = alone.seconds;
    for (const double gbps : rates) {
      const double distance = add(method, gbps, alone, step_time(records[next++]));
      if (std::isnan(distance) || std::abs(distance) > std::abs(farthest)) farthest = distance;
    }
  }
  // Which rates these are depends on the inner step that was measured.
  const std::array<double, 2> around = rates_around(inner_of_streaming);
  std::array<double, 2> exposed{};
  const std::array cells_there = {timed_cell(timed_method(streaming), around[0]), timed_cell(timed_method(streaming), around[1])};
  const std::vector<results::CellRecord> there = context.cells.run(cells_there);
  if (badly(there, f)) return f;
  for (std::size_t i = 0; i < exposed.size(); ++i) {
    const StepTime step = step_time(there[i]);
    add(timed_method(streaming), around[i], {inner_of_streaming, 0}, step);
    exposed[i] = step.seconds / inner_of_streaming - 1;
  }
  f.measures = {{"mean step over the modelled one - 1, the farthest of all methods and links", farthest, no_number,
                 no_number, 0.1, "of the step", "farthest"},
                {"what Streaming DiLoCo's messages add to a step at 0.9 of the predicted rate", exposed[0],
                 no_number, no_number, hidden_part, "of the step", "slower"},
                {"the same at 1.1 of it", exposed[1], no_number, no_number, hidden_part, "of the step", "faster"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_communication.C22",
     .statement = "The time model predicts the step of every method.",
     .provenance = "derived: a check of ours",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .rule = with_arms(
         {.settings = {{"link", "emulated, 0.1 and 1 Gbit/s, latency 50 us; Streaming DiLoCo with an overlap of 2 also at 0.9 and 1.1 of the rate that the model predicts"}},
          .quantities = {{"farthest",
                          "mean step over (step without its exchange + codecs' time + modelled exchange) - 1, the farthest "
                          "from 0 of seven methods and two links; steps without an exchange are measured with it omitted"},
                         {"slower",
                          "mean step of Streaming DiLoCo, overlap 2, over that without an exchange, - 1, at 0.9 of the rate "
                          "at which the model says that it is 2 % of the step without an exchange, as that was measured"},
                         {"faster", "the same at 1.1 of that rate"}},
          .constants = {{"near", 0.1, "of the step"}, {"hidden", hidden_part, "of a step: what counts as hidden"}},
          .clauses = {{Verdict::confirmed, "abs(farthest) <= near && slower > hidden && faster < hidden"}},
          .otherwise = Verdict::not_reproduced,
          .smallest_effect = "hidden"},
         requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
