// tensor_parallel.C23, a claim of ours: a reduce-scatter of coded weight gradients that encodes each piece once, against a ring.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/interval.h"
#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double growth_allowed = 1.2;

const std::vector<int> lines = {2, 3, 4};

CellRequest request_of(int q, int seed) {
  CellRequest r = check_request("scatter", q, "all", seed);
  r.parameters.set("codec", "quantize:bits=8");
  return r;
}
std::vector<NamedRequest> arms() {
  std::vector<NamedRequest> all;
  for (const int q : lines) {
    CellRequest r = request_of(q, 1);
    r.parameters.erase("seed");  // 1, 2, ...
    all.push_back({"line of " + std::to_string(q), std::move(r)});
  }
  return all;
}

Finding measure(JudgeContext& context) {
  const int seeds = context.seeds();
  std::vector<CellRequest> requests;
  for (const int q : lines)
    for (int seed = 1; seed <= seeds; ++seed) {
      requests.push_back(request_of(q, seed));
    }
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"error of coded weight gradients", {"q", "all-to-all", "low", "high", "ring", "low", "high", "encodings, all-to-all", "encodings, ring"}, {}};
  // By data and line; the verdict rests on independent partial gradients.
  std::vector<Interval> direct[2], ring[2];
  for (int data = 0; data < 2; ++data) {
    const std::string tensor = data == 0 ? "independent" : "alike";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::vector<double> a, b;
      Amount once, often;
      for (std::size_t seed = 0; seed < static_cast<std::size_t>(seeds); ++seed) {
        const results::CellRecord& record = records[i * static_cast<std::size_t>(seeds) + seed];
        const std::string method = "line of " + std::to_string(lines[i]);
        a.push_back(error_of(record, method, tensor, "all-to-all"));
        b.push_back(error_of(record, method, tensor, "ring"));
        once = stored_of(record, method, tensor, "all-to-all, encodings of a contribution"), often = stored_of(record, method, tensor, "ring, encodings of a contribution");
      }
      direct[data].push_back(interval_of(a)), ring[data].push_back(interval_of(b));
      const Interval &x = direct[data].back(), &y = ring[data].back();
      table.rows.push_back({tensor + ", q = " + std::to_string(lines[i]), {static_cast<double>(lines[i]), x.mean, x.low, x.high, y.mean, y.low, y.high, static_cast<double>(once.most),
                                                                            static_cast<double>(often.most)}});
    }
  }
  const auto growth = [](const std::vector<Interval>& by_line) {
    double most = 0;
    for (const Interval& i : by_line) most = std::max(most, i.mean / by_line.front().mean);
    return most;
  };
  const double flat = growth(direct[0]), rising = ring[0].back().mean / ring[0].front().mean;
  double gap = INFINITY;
  for (std::size_t i = 1; i < ring[0].size(); ++i) gap = std::min(gap, ring[0][i].low - ring[0][i - 1].high);
  found.measures = {{"largest error of all-to-all over that at q = 2", flat, no_number, no_number, growth_allowed, "ratio", "flat"},
                {"error of the ring at q = 4 over that at q = 2", rising, no_number, no_number, growth_allowed, "ratio", "rising"},
                {"smallest gap between the ring's intervals from q to q", gap, no_number, no_number, 0, "", "gap"},
                {"the same where partial gradients are alike, all-to-all", growth(direct[1]), no_number, no_number, no_number, "ratio"},
                {"the same where partial gradients are alike, ring", ring[1].back().mean / ring[1].front().mean, no_number, no_number, no_number, "ratio"}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    found.measures.push_back(measure_of("relative error of all-to-all at q = " + std::to_string(lines[i]), direct[0][i], no_number, ""));
    found.measures.push_back(measure_of("relative error of the ring at q = " + std::to_string(lines[i]), ring[0][i], no_number, ""));
  }
  found.tables = {std::move(table)};
  char text[700];
  std::snprintf(text, sizeof text, "all-to-all: %.4f, %.4f, %.4f at q = 2, 3, 4 (at most %.2f times that at 2), one encoding each; ring: %.4f, %.4f, %.4f (%.2f times), up to 3 encodings; over 2 ranks the ring loses less, its own contribution is not encoded", direct[0][0].mean,
                direct[0][1].mean, direct[0][2].mean, flat, ring[0][0].mean, ring[0][1].mean, ring[0][2].mean, rising);
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C23",
     .statement = "Compression attaches to 3-D's reduce-scatters with one quantisation per partial sum: the error does not grow with the line, a ring's does.",
     .provenance = "derived: a claim of ours",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"flat", "relative error of an INT8 reduce-scatter of dW by all-to-all with an fp32 sum, mean over seeds, over that at q = 2, the largest of q = 2, 3, 4; independent "
                                                "rows on every rank"},
                                       {"rising", "the same of a ring, at q = 4"},
                                       {"gap", "lower end of the ring's 95 % interval (Student, over seeds) at q minus the upper end at the q before, the smallest"}},
                        .constants = {{"growth", growth_allowed, "x: a growth by 20 % is the smallest worth naming"}},
                        .clauses = {{Verdict::confirmed, "flat <= growth && rising > growth && gap > 0"}},
                        .otherwise = Verdict::not_reproduced,
                        .smallest_effect = "growth"},
                       arms()),
     .seeds = {5},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
