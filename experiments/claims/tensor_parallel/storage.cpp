// tensor_parallel.C1: 3-D stores exactly 1/q^3 of X, W and Y on every rank; what is saved for the backward pass is reported apart.
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"
#include "models/parallel/tensor/grid_check_cases.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr std::int64_t word = 8;  // float64

Finding measure(JudgeContext& context) {
  const std::vector<int> sides = {2, 3, 4};
  std::vector<CellRequest> requests;
  for (const int q : sides) requests.push_back(check_request("linears", q * q * q, "3d"));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"stored elements per rank", {"q", "X", "W", "Y", "X + W + Y over 1/q^3 of them", "most - least", "saved gathered", "(S_X + S_W)/q^2"}, {}};
  std::int64_t spread = 0, off = 0, saved_by_others = 0, saved_off = 0;
  double saved_least = no_number, saved_most = no_number;
  int cases = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::int64_t q = sides[i], p = q * q * q;
    const GridShape shape{GridKind::three_d, {sides[i], sides[i], sides[i]}};
    const GridCheckSizes n(shape);
    for (const GridCheckCase& c : grid_check_cases(shape)) {
      ++cases;
      const std::int64_t whole[3] = {n.rows() * n.in, n.in * n.out, n.rows() * n.out};
      const char* const names[3] = {"stored X", "stored W", "stored Y"};
      double elements[3], sum = 0, share = 0;
      std::int64_t apart = 0;
      for (int k = 0; k < 3; ++k) {
        const Amount stored = stored_of(records[i], c.name(), "linear", names[k]);
        apart = std::max(apart, (stored.most - stored.least) / word);
        off = std::max({off, std::abs(p * stored.most - word * whole[k]), std::abs(p * stored.least - word * whole[k]), std::abs(stored.sum - word * whole[k])});
        elements[k] = static_cast<double>(stored.most) / word;
        sum += elements[k], share += static_cast<double>(whole[k]) / static_cast<double>(p);
      }
      spread = std::max(spread, apart);
      const Amount kept = stored_of(records[i], c.name(), "linear", "kept gathered");
      const std::int64_t promised = (whole[0] + whole[1]) / (q * q);
      if (c.options.gather == GatherPolicy::keep) {
        saved_off = std::max({saved_off, std::abs(kept.most / word - promised), std::abs(kept.least / word - promised)});
        // Against the shards of X and W, which the other policies save: how many times the promise.
        const double times = static_cast<double>(kept.most) / word / (static_cast<double>(whole[0] + whole[1]) / static_cast<double>(p));
        saved_least = std::fmin(saved_least, times / static_cast<double>(q)), saved_most = std::fmax(saved_most, times / static_cast<double>(q));
      } else {
        saved_by_others = std::max(saved_by_others, kept.most);
      }
      table.rows.push_back({c.name(), {static_cast<double>(q), elements[0], elements[1], elements[2], sum / share, static_cast<double>(apart),
                                       static_cast<double>(kept.most) / word, static_cast<double>(promised)}});
    }
  }
  found.measures = {{"most - least elements of a tensor over ranks", static_cast<double>(spread), no_number, no_number, 0, "elements", "spread"},
                {"largest distance of q^3 x stored from the whole tensor", static_cast<double>(off), no_number, no_number, 0, "bytes", "off"},
                {"saved beside the shards, gathering again", static_cast<double>(saved_by_others), no_number, no_number, 0, "bytes", "saved_by_others"},
                {"saved beside the shards, keep, from (S_X + S_W)/q^2", static_cast<double>(saved_off), no_number, no_number, 0, "elements", "saved_off"},
                {"gathered tensors saved by keep over q times the shards", saved_most, saved_least, saved_most, 1, "ratio"}};
  found.tables = {std::move(table)};
  char text[700];
  std::snprintf(text, sizeof text,
                "%d cases (q = 2, 3, 4; layouts P and H; swapped): most - least %lld elements, X, W, Y are %s. Saved for the backward pass: gathering again nothing beside the "
                "shards; keep holds q times the shards of X and W, which refutes the memory claim for that policy",
                cases, static_cast<long long>(spread), off == 0 ? "1/q^3 each on every rank" : "not 1/q^3 each");
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C1",
     .statement = "3-D tensor parallelism stores exactly 1/q^3 of X, W and Y on every rank.",
     .provenance = "read: \"perfect load balance\", abstract page of arXiv 2105.14450; shares derived from the released layouts",
     .basis = Basis::exact,
     .from = Profile::standard,
     .rule = {.settings = {{"q", "2, 3 and 4 (64 oversubscribed ranks)"}, {"layouts", "P and H, swapped and not; gathered tensors kept, gathered again once and literally"}},
              .quantities = {{"spread", "most - least elements of X, W or Y over ranks, the largest of all layouts"},
                             {"off", "bytes by which q^3 times what a rank stores of X, W or Y misses the whole tensor, the largest"},
                             {"saved_by_others", "bytes saved for the backward pass beside the shards where tensors are gathered again, the most of a rank"},
                             {"saved_off", "elements by which what keep saves misses (S_X + S_W)/q^2, the largest"}},
              .clauses = {{Verdict::pass, "spread == 0 && off == 0 && saved_by_others == 0 && saved_off == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure,
     .figure = "tensor_parallel_cube"});

}  // namespace
}  // namespace thinwire::claims
