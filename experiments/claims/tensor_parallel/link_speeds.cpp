// tensor_parallel.C14b: the best of 2-D, 2.5-D and 3-D against 1-D on ranks of this machine, over link speeds and batches.
#include <cmath>
#include <cstdio>

#include "experiments/claims/published.h"
#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

const std::vector<double> links = {1, 10, 100};  ///< Gbit/s
const std::vector<int> batches = {16, 64}, counts = {4, 8, 16};

Finding measure(JudgeContext& context) {
  const double claimed = Published::open(context, "tensor_parallel.csv").read("Colossal-AI", "headline", "large-scale models", "training speed-up");
  std::vector<CellRequest> requests;
  for (const int batch : batches) {
    UnitCell cell;
    cell.ranks = 1, cell.batch = batch;
    requests.push_back(unit_request(cell));
  }
  for (const double link : links)
    for (const int ranks : counts)
      for (const int batch : batches) {
        UnitCell cell;
        cell.link = emulated_link(link), cell.ranks = ranks, cell.batch = batch;
        requests.push_back(unit_request(cell));
      }
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  Finding found;
  Table table{"best grid over 1-D", {"link (Gbit/s)", "ranks", "batch", "1-D (ms)", "best (ms)", "speed-up"}, {}};
  double most = no_number;
  std::string where, wins;
  LeftOut out;
  int lost = 0;
  std::size_t k = batches.size();
  for (const double link : links)
    for (const int ranks : counts)
      for (std::size_t b = 0; b < batches.size(); ++b) {
        const int batch = batches[b];
        const std::vector<UnitTimes> times = unit_times(records[k++]);
        const std::string place = std::to_string(ranks) + " ranks, batch " + std::to_string(batch) + ", " + text_of(link) + " Gbit/s";
        UnitCell cell;
        cell.batch = batch;
        Point point;
        const UnitTimes* best = nullptr;
        for (const UnitTimes& t : times) {
          point.add(t, shape_of(t, ranks), cell, link, unit_times(records[b]).front().step_ms());
          if (t.method.rfind("1d ", 0) != 0 && t.skipped.empty() && (!best || t.step_ms() < best->step_ms())) best = &t;
        }
        const UnitTimes& line = of_kind(times, GridKind::one_d);
        if (out.contains(place, point) || !best) continue;
        const double gain = line.step_ms() / best->step_ms();
        table.rows.push_back({place + ": " + best->method, {link, static_cast<double>(ranks), static_cast<double>(batch), line.step_ms(), best->step_ms(), gain}});
        if (!(gain <= most)) most = gain, where = best->method + " on " + place;
        if (gain < 1) ++lost, wins += (wins.empty() ? "" : "; ") + place;
      }
  found.measures = {{"largest speed-up over 1-D", most, no_number, no_number, claimed, "x", "gain"},
                {"printed", claimed, no_number, no_number, no_number, "x", "printed"},
                {"configurations judged", static_cast<double>(out.judged()), no_number, no_number, no_number, ""},
                {"of them won by 1-D", static_cast<double>(lost), no_number, no_number, no_number, ""},
                out.measure()};
  found.tables = {std::move(table), out.table()};
  if (std::isnan(most)) {
    found.instead = Verdict::not_decidable;
    found.note = "no link was carried here: " + out.note();
    return found;
  }
  found.note = "at most " + text_of(std::round(100 * most) / 100) + "x (" + where + "); 1-D wins at " + (wins.empty() ? "none" : wins) + "; " + out.note();
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C14b",
     .statement = "Advanced tensor parallelism trains up to 2.76x faster than 1-D: 4 to 16 ranks here.",
     .provenance = "read: abstract page of 2110.14883; that it compares tensor parallelism on 64 single-GPU nodes recollected",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .rule = with_arms({.settings = {{"link", emulated_links(links)}, {"ranks", list_of({counts.begin(), counts.end()})}, {"batch", list_of({batches.begin(), batches.end()})}, {"compute", "timed alone, replayed"}},
                        .quantities = {{"gain", "step of 1-D over that of the best of 2-D, 2.5-D and 3-D, the largest over links, ranks and batches; medians of repetitions within a cell. " + left_out_rule()},
                                       {"printed", "training speed-up in the abstract (results/published)"}},
                        .constants = {{"even", 1, "x: neither is faster"}, {"worth", 0.05, "of a step: a smaller difference is not worth naming"}},
                        .clauses = {{Verdict::confirmed, "gain >= printed && gain >= even + worth"}, {Verdict::direction_only, "gain >= even + worth"}},
                        .otherwise = Verdict::not_reproduced,
                        .smallest_effect = "worth"},
                       {{"every grid of the ranks", unit_request({})}}),
     .measure = measure,
     .past = {{"2026-11-21", "points that the emulated link does not carry (1-D over 1.25 times the model's step) are left out", "the first run judged 18 points (at most 1.23x too; 1-D won 11 of them), most of which these cores cannot move in the time"},
              {"2026-11-22", "a point is left out as a whole where any scheme, not only 1-D, is so late", "a filter of 1-D alone favours the others"}},
     .figure = "tensor_parallel_links"});

}  // namespace
}  // namespace thinwire::claims
