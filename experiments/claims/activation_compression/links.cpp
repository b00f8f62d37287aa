// activation_compression.C7, C10 and C24: what coded activations gain in time, by link and size of the messages. Timed steps over emulated links; compute and codecs take what they take on this
// machine, so where the gain ends is a rate of this machine, not of GPUs.
#include <algorithm>

#include "experiments/claims/activation_compression/cells/timed_steps.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

// ---- C7: by the link's rate ----

const double rates[] = {1, 10, 100, 1000, 2400};
Timing by_rate() {
  Timing t{timed_step + Settings{{"hidden", "256"}, {"seq", "128"}, {"micro-batch", "8"}, {"global-batch", "8"}}, encoder_of_late_layers, {}};
  for (const int ranks : {2, 4})
    for (const double gbps : rates) t.points.push_back({std::to_string(ranks) + " ranks, " + to_words(gbps) + " Gbit/s", ranks, gbps, {{"tp", std::to_string(ranks)}}});
  return t;
}

const bool vanishes = register_timing(
    "activation_compression.C7", "The benefit of an auto-encoder vanishes on fast links.", "recollected (Bian)", by_rate(),
    {.quantities = {{"slow", "T(dense) / T(coded) at 1 Gbit/s, mean over repetitions with its 95 % interval, the lesser of 2 and 4 ranks"},
                    {"fast", "the same at 2.4 Tbit/s, the larger"},
                    {"rise", "most that the speed-up rises from a link to the next faster one, means, 2 and 4 ranks"}},
     .constants = {{"one", 1, "no benefit"}, {"gain", 1.05, "a benefit"}, {"no_gain", 1.02, "none"}, {"noise", 0.02, "a rise within what repetitions differ by"}, smallest_gain},
     // Without a benefit on the slow link there is none to vanish.
     .clauses = {{Verdict::not_decidable, "slow.high < one + smallest"},
                 {Verdict::confirmed, "slow.low > gain && fast.high < no_gain && rise < noise"},
                 {Verdict::not_reproduced, "fast.low > gain"},
                 {Verdict::direction_only, "slow.low > one && slow.low > fast.high"}}},
    [](const Gains& g, Finding& f) {
      const std::size_t last = std::size(rates) - 1;
      Interval slow, fast;
      double rise = 0;
      for (std::size_t first = 0; first < g.by_point.size(); first += std::size(rates)) {
        if (!(g.at(first).mean >= slow.mean)) slow = g.at(first);
        if (!(g.at(first + last).mean <= fast.mean)) fast = g.at(first + last);
        for (std::size_t r = 0; r < last; ++r) rise = std::max(rise, g.at(first + r + 1).mean - g.at(first + r).mean);
      }
      f.measures = {measure_of("speed-up at 1 Gbit/s, the lesser of 2 and 4 ranks", slow, 1.05, "x", "slow"), measure_of("speed-up at 2.4 Tbit/s, the larger", fast, 1.02, "x", "fast"),
                    {"most that it rises to the next faster link", rise, no_number, no_number, 0.02, "x", "rise"}};
    });

// ---- C10: by batch and sequence ----

Timing by_size() {
  Timing t{timed_step + Settings{{"hidden", "256"}, {"tp", "2"}}, encoder_of_late_layers, {}};
  for (const char* seq : {"128", "512"})
    for (const char* batch : {"8", "32"}) t.points.push_back({std::string(batch) + " x " + seq, 2, 1, {{"seq", seq}, {"micro-batch", batch}, {"global-batch", batch}}});
  return t;
}

const bool larger = register_timing("activation_compression.C10", "Larger batches and sequences raise the benefit.", "recollected (Bian)", by_size(),
                           {.quantities = {{"raised", "speed-up at 32 x 512 less that at 8 x 128 on a link of 1 Gbit/s, paired over repetitions, 95 % interval by Student's t"}},
                            .constants = {{"none", 0, "no difference"}, smallest_gain},
                            .scatter = {{"raised", "none", "smallest"}},
                            .clauses = {{Verdict::confirmed, "raised.low > none && raised >= smallest"}, {Verdict::not_reproduced, "raised.high < none || (raised.low > -smallest && raised.high < smallest)"}}},
                           [](const Gains& g, Finding& f) {
                             f.measures = {measure_of("speed-up at 32 x 512 less that at 8 x 128", paired_interval(g.by_point.front(), g.by_point.back()), 0, "x", "raised")};
                           });

// ---- C24: AQ-SGD against f32 ----

const double slow_rates[] = {10, 1, 0.5, 0.3, 0.1};
Timing of_changes() {
  // An epoch is a step: from the second on changes travel.
  Timing t{timed_step + Settings{{"hidden", "256"}, {"pp", "4"}, {"seq", "64"}, {"micro-batch", "4"}, {"global-batch", "32"}, {"data", "text:windows=32"}},
           {{"compress.pp_forward", "quantize:packing=neighbour,bits=4+delta"}, {"compress.pp_backward", "quantize:packing=neighbour,bits=8"}}, {}};
  t.shared["comm-dtype"] = "f32";
  for (const double gbps : slow_rates) t.points.push_back({to_words(gbps) + " Gbit/s", 4, gbps, {}});
  return t;
}

const bool changes = register_timing("activation_compression.C24", "On slow networks AQ-SGD is up to 4.3x faster end to end.", "read: abstract of 2206.01299", of_changes(),
                            {.quantities = {{"most", "T(dense, f32) / T(AQ-SGD, 4 bits forward, 8 back), largest of 10, 1, 0.5, 0.3 and 0.1 Gbit/s, mean over repetitions with its 95 % interval"},
                                            {"drop", "most that it falls from a link to the next slower one, means"}},
                             .constants = {{"stated", 4, "of the paper's 4.3; bytes alone allow 5.33"}, {"far", 3, "below what the paper could mean"}, {"noise", 0.02, "a fall within what repetitions differ by"}, smallest_gain},
                             .clauses = {{Verdict::confirmed, "most.low >= stated && drop < noise"}, {Verdict::not_reproduced, "most.high < far"}, {Verdict::direction_only, "most.low > 1 + smallest"}}},
                            [](const Gains& g, Finding& f) {
                              Interval most;
                              double drop = 0;
                              for (std::size_t p = 0; p < g.by_point.size(); ++p) {
                                if (!(g.at(p).mean <= most.mean)) most = g.at(p);
                                if (p > 0) drop = std::max(drop, g.at(p - 1).mean - g.at(p).mean);
                              }
                              f.measures = {measure_of("largest speed-up", most, 4, "x", "most"), {"most that it falls to the next slower link", drop, no_number, no_number, 0.02, "x", "drop"}};
                            });

}  // namespace
}  // namespace thinwire::claims
