// tensor_parallel.C14b: the best of 2-D, 2.5-D and 3-D against 1-D on ranks of this machine, over link speeds and batches.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double claimed = 2.76;
constexpr double links[] = {1, 10, 100};
constexpr int batches[] = {16, 64}, counts[] = {4, 8, 16};

Outcome judge(JudgeContext& context) {
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
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Outcome o;
  Table table{"best grid over 1-D", {"link (Gbit/s)", "ranks", "batch", "1-D (ms)", "best (ms)", "speed-up"}, {}};
  double most = no_number;
  std::string where, wins, skipped;
  int judged = 0, lost = 0;
  std::size_t k = std::size(batches);
  for (const double link : links)
    for (const int ranks : counts)
      for (std::size_t b = 0; b < std::size(batches); ++b) {
        const int batch = batches[b];
        const std::vector<UnitTimes> times = unit_times(records[k++]);
        const std::string place = std::to_string(ranks) + " ranks, batch " + std::to_string(batch) + ", " + text_of(link) + " Gbit/s";
        std::string why;
        const UnitTimes* best = nullptr;
        for (const UnitTimes& t : times) {
          if (!t.untrusted.empty() && why.empty()) why = t.untrusted;
          if (t.method.rfind("1d ", 0) != 0 && t.skipped.empty() && (!best || t.step_ms() < best->step_ms())) best = &t;
        }
        const UnitTimes& line = of_kind(times, GridKind::one_d);
        UnitCell cell;
        cell.batch = batch;
        if (why.empty()) why = not_carried(line, ranks, cell, link, unit_times(records[b]).front().step_ms());
        if (!why.empty() || !best) {
          skipped += (skipped.empty() ? ". SKIPPED, not carried here: " : "; ") + place + " (" + why + ")";
          continue;
        }
        const double gain = line.step_ms() / best->step_ms();
        ++judged;
        table.rows.push_back({place + ": " + best->method, {link, static_cast<double>(ranks), static_cast<double>(batch), line.step_ms(), best->step_ms(), gain}});
        if (!(gain <= most)) most = gain, where = best->method + " on " + place;
        if (gain < 1) ++lost, wins += (wins.empty() ? "" : "; ") + place;
      }
  o.measures = {{"largest speed-up over 1-D", most, no_number, no_number, claimed, "x"},
                {"configurations judged", static_cast<double>(judged), no_number, no_number, no_number, ""},
                {"of them won by 1-D", static_cast<double>(lost), no_number, no_number, no_number, ""}};
  o.tables = {std::move(table)};
  if (judged == 0) {
    o.verdict = Verdict::not_decidable;
    o.because = "no link was carried here" + skipped;
    return o;
  }
  o.verdict = most >= claimed ? Verdict::confirmed : most > 1 ? Verdict::direction_only : Verdict::refuted;
  o.because = "at most " + text_of(std::round(100 * most) / 100) + "x (" + where + "); 1-D wins at " + (wins.empty() ? "none" : wins) + skipped;
  return o;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C14b",
     .statement = "Advanced tensor parallelism trains up to 2.76x faster than 1-D: 4 to 16 ranks here.",
     .provenance = "read: abstract page of 2110.14883; that it compares tensor parallelism on 64 single-GPU nodes recollected",
     .rule = "best of 2-D, 2.5-D, 3-D against 1-D at 4, 8, 16 ranks, 1, 10, 100 Gbit/s, timed compute: CONFIRMED iff the maximum is >= 2.76, DIRECTION ONLY iff > 1; rates that the emulated link does not "
             "carry here are SKIPPED",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
