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

constexpr std::int64_t replicas[] = {1, 2, 4, 8};

Finding measure(JudgeContext&) {
  Finding f;
  int others = 0;
  for (const std::int64_t d : replicas) {
    const std::int64_t elements = 2 * d * 1000;
    // Two steps: every replica group of first and of last stages, then every pair; fused: all 2 D of them at once.
    const std::int64_t two_step = 2 * sent_by_all(elements, static_cast<int>(d)) + d * sent_by_all(elements, 2);
    const std::int64_t fused = sent_by_all(elements, static_cast<int>(2 * d));
    others += fused * (3 * d - 2) != two_step * (2 * d - 1);
    char name[48];
    std::snprintf(name, sizeof name, "fused / two steps at D = %d", static_cast<int>(d));
    f.measures.push_back({name, static_cast<double>(fused) / static_cast<double>(two_step), no_number, no_number,
                          static_cast<double>(2 * d - 1) / static_cast<double>(3 * d - 2), "ratio"});
  }
  f.measures.push_back({"replicas D at which the ratio is another", static_cast<double>(others), no_number, no_number, 0, "", "others"});
  f.note = "counters of real runs: models.training.test_parallel_traffic";
  return f;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C7",
     .statement = "Fused embedding synchronisation moves (2D-1)/(3D-2) of the bytes of the two-step one.",
     .provenance = "derived; as the paper's claim recollected",
     .basis = Basis::exact,
     .rule = {.settings = {{"D", "1, 2, 4, 8"}, {"elements", "2000 D, divisible by 2 D"}},
              .quantities = {{"others", "how many D have another ratio of ring all-reduce bytes than (2D-1)/(3D-2), by integer arithmetic"}},
              .clauses = {{Verdict::pass, "others == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
