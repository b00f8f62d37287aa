// tensor_parallel.C10b: 2.5-D [2,2,2] on 8 ranks against 2-D [2,2,1] and 1-D on 4, at the same batch.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double links[] = {1, 10};
constexpr int batch = 64;

Outcome judge(JudgeContext& context) {
  std::vector<CellRequest> requests;
  UnitCell alone;
  alone.ranks = 1, alone.batch = batch;
  requests.push_back(unit_request(alone));
  for (const double link : links) {
    UnitCell cell;
    cell.link = emulated_link(link), cell.batch = batch;
    cell.ranks = 4;
    requests.push_back(unit_request(cell));
    cell.ranks = 8;
    requests.push_back(unit_request(cell));
  }
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Outcome o;
  Table table{"2.5-D on 8 ranks against 4 ranks, equal batch", {"link (Gbit/s)", "ranks", "forward (ms)", "backward (ms)", "step (ms)"}, {}};
  bool faster = true;
  int judged = 0;
  double over_2d = no_number, over_1d = no_number;
  std::string skipped;
  for (std::size_t i = 0; i < std::size(links); ++i) {
    const std::vector<UnitTimes> four = unit_times(records[2 * i + 1]), eight = unit_times(records[2 * i + 2]);
    const UnitTimes &line = of_kind(four, GridKind::one_d), &square = of_kind(four, GridKind::two_d), &deep = of_kind(eight, GridKind::two_and_half_d);
    std::string why = line.untrusted + square.untrusted + deep.untrusted;
    if (why.empty()) why = not_carried(line, 4, alone, links[i], unit_times(records[0]).front().step_ms());
    if (why.empty()) why = not_carried(of_kind(eight, GridKind::one_d), 8, alone, links[i], unit_times(records[0]).front().step_ms());
    if (!why.empty()) {
      skipped += "; " + text_of(links[i]) + " Gbit/s SKIPPED, not carried here: " + why;
      continue;
    }
    ++judged;
    for (const auto& [t, ranks] : {std::pair{&line, 4.0}, {&square, 4.0}, {&deep, 8.0}})
      table.rows.push_back({t->method + " at " + text_of(links[i]) + " Gbit/s", {links[i], ranks, t->forward_ms, t->backward_ms, t->step_ms()}});
    const double a = square.step_ms() / deep.step_ms(), b = line.step_ms() / deep.step_ms();
    o.measures.push_back({"[2,2,2] over [2,2,1] at " + text_of(links[i]) + " Gbit/s, speed-up", a, no_number, no_number, 1, "x"});
    o.measures.push_back({"[2,2,2] over 1-D on 4 at " + text_of(links[i]) + " Gbit/s, speed-up", b, no_number, no_number, 1, "x"});
    faster = faster && a > 1 && b > 1;
    over_2d = std::fmin(over_2d, a), over_1d = std::fmin(over_1d, b);
  }
  o.tables = {std::move(table)};
  if (judged == 0) {
    o.verdict = Verdict::not_decidable;
    o.because = "no link was carried" + skipped;
    return o;
  }
  o.verdict = faster ? Verdict::direction_only : Verdict::refuted;
  char text[300];
  std::snprintf(text, sizeof text, "[2,2,2] on 8 ranks over [2,2,1] on 4: at least %.2fx, over 1-D on 4: at least %.2fx (published at 64 GPUs 1.53x and 1.38x); size is not decidable at 8 ranks", over_2d, over_1d);
  o.because = text + skipped;
  return o;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C10b",
     .statement = "Tesseract's [2,2,2] on 8 ranks is faster than [2,2,1] and 1-D on 4.",
     .provenance = "read: abstract of 2105.14500 (strong scaling 1.38x and 1.53x); the run derived",
     .rule = "equal batch, timed compute, 1 and 10 Gbit/s: DIRECTION ONLY iff faster than both at every link that is carried here, else REFUTED",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
