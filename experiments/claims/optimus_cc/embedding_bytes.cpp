// optimus_cc.C7: bytes of the tied embedding's synchronisation, fused against two steps, by the counters' own closed forms.
#include <cstdint>
#include <cstdio>

#include "collectives/communicator/cost_terms.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims {
namespace {

std::int64_t sent_by_all(std::int64_t elements, int ranks) {
  std::int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += ring_all_reduce_bytes(elements, 4, r, ranks).sent;
  return sum;
}

Outcome judge(JudgeContext&) {
  Outcome o;
  bool exact = true;
  for (const std::int64_t d : {1, 2, 4, 8}) {
    const std::int64_t elements = 2 * d * 1000;
    // Two steps: every replica group of first and of last stages, then every pair; fused: all 2 D of them at once.
    const std::int64_t two_step = 2 * sent_by_all(elements, static_cast<int>(d)) + d * sent_by_all(elements, 2);
    const std::int64_t fused = sent_by_all(elements, static_cast<int>(2 * d));
    exact = exact && fused * (3 * d - 2) == two_step * (2 * d - 1);
    char name[48];
    std::snprintf(name, sizeof name, "fused / two steps at D = %d", static_cast<int>(d));
    o.measures.push_back({name, static_cast<double>(fused) / static_cast<double>(two_step), no_number, no_number,
                          static_cast<double>(2 * d - 1) / static_cast<double>(3 * d - 2), "ratio"});
  }
  o.verdict = exact ? Verdict::pass : Verdict::fail;
  o.because = exact ? "the ratio is (2D-1)/(3D-2) exactly for D = 1, 2, 4, 8 (counters of real runs: models.training.test_parallel_traffic)"
                    : "a ratio differs from (2D-1)/(3D-2)";
  return o;
}

const bool registered = register_claim({.id = "optimus_cc.C7",
                                        .statement = "Fused embedding synchronisation moves (2D-1)/(3D-2) of the bytes of the two-step one.",
                                        .provenance = "derived; as the paper's claim recollected",
                                        .rule = "PASS if the ratio of ring all-reduce bytes is exact, V divisible by 2D, D in {1, 2, 4, 8}",
                                        .basis = Basis::exact,
                                        .judge = judge});

}  // namespace
}  // namespace thinwire::claims
