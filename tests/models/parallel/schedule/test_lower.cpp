// labels: unit
// timeout: 120
// Lowered schedules: every unit of every pass once and in order, gathers there when they are needed and for no longer than asked, reductions when
// a gradient is complete; and that the walker times a lowered list as it times the one that it was made of.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "models/parallel/schedule/lower.h"
#include "models/parallel/schedule/walk.h"

namespace thinwire {
namespace {

using Kind = InstructionKind;

UnitCounts units_of(const Schedule& s, int layers = 2) {
  UnitCounts counts(s.stage.size());
  for (int stage = 0; stage < s.stages; ++stage)
    for (int chunk = 0; chunk < s.virtual_stages; ++chunk) {
      const int position = global_chunk(s, stage, chunk);
      counts[static_cast<std::size_t>(stage)].push_back(layers + (position == 0) + (position + 1 == s.stages * s.virtual_stages));
    }
  return counts;
}

std::vector<Schedule> schedules() {
  return {make_schedule("1f1b", 1, 3),  make_schedule("1f1b", 4, 8),           make_schedule("gpipe", 3, 5),
          make_schedule("1f1b", 4, 2),  make_schedule("interleaved", 2, 4, 3), make_schedule("terapipe", 3, 2, 1, 4)};
}

std::vector<LoweringOptions> gathering_options() {
  std::vector<LoweringOptions> all;
  for (const KeepGathered keep : {KeepGathered::layer, KeepGathered::micro_batch, KeepGathered::step})
    for (const int prefetch : {0, 1, 3})
      for (const bool backward : {true, false}) {
        LoweringOptions o;
        o.gathers = true, o.keep = keep, o.prefetch = prefetch, o.backward = backward;
        all.push_back(o);
      }
  return all;
}

std::string text(const std::vector<Instruction>& list) {
  std::string all;
  for (const Instruction& i : list) {
    static const std::map<Kind, const char*> names = {{Kind::forward, "f"}, {Kind::backward, "b"}, {Kind::unshard, "u"}, {Kind::wait_unshard, "w"}, {Kind::reshard, "-"}, {Kind::reduce, "r"}};
    const auto found = names.find(i.kind);
    all += (all.empty() ? "" : " ") + (found == names.end() ? name_of(i.kind) : found->second + std::to_string(i.unit));
  }
  return all;
}

TEST(Lower, SplitsEveryPassIntoItsUnitsAndKeepsTheRest) {
  for (const Schedule& s : schedules()) {
    const Schedule lowered = lower(s, units_of(s), {});
    for (std::size_t stage = 0; stage < s.stage.size(); ++stage) {
      std::vector<Instruction> joined;  // the way back
      const auto& list = lowered.stage[stage];
      for (std::size_t k = 0; k < list.size();) {
        if (!is_computation(list[k].kind)) {
          joined.push_back(list[k++]);
          continue;
        }
        const std::size_t end = end_of_joined_pass(list, k);
        const int count = lowered.units[stage][static_cast<std::size_t>(list[k].chunk)];
        EXPECT_EQ(end - k, static_cast<std::size_t>(count));
        EXPECT_EQ(list[k].unit, list[k].kind == Kind::forward ? 0 : count - 1);
        Instruction whole = list[k];
        whole.unit = -1;
        joined.push_back(whole);
        k = end;
      }
      EXPECT_EQ(joined, s.stage[stage]) << s.name << " stage " << stage;
      EXPECT_EQ(peak_live_activations(lowered, static_cast<int>(stage)), peak_live_activations(s, static_cast<int>(stage)));
    }
  }
}

TEST(Lower, ReducesAUnitWhereItsGradientIsComplete) {
  const Schedule s = make_schedule("1f1b", 1, 2);
  LoweringOptions options;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]), "f0 f1 f2 b2 b1 b0 f0 f1 f2 b2 b1 b0");
  options.reduce = ReduceWhen::last;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]), "f0 f1 f2 b2 b1 b0 f0 f1 f2 b2 r2 b1 r1 b0 r0");
  options.reduce_inside = false;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]), "f0 f1 f2 b2 b1 b0 f0 f1 f2 b2 b1 b0 r2 r1 r0");
  options.reduce = ReduceWhen::every;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]), "f0 f1 f2 b2 b1 b0 r2 r1 r0 f0 f1 f2 b2 b1 b0 r2 r1 r0");
  options.backward = false;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]), "f0 f1 f2 f0 f1 f2");
}

TEST(Lower, EveryScheduleReducesEachUnitOnceBehindItsLastPass) {
  LoweringOptions options;
  options.reduce = ReduceWhen::last;
  for (const Schedule& s : schedules()) {
    const Schedule lowered = lower(s, units_of(s), options);
    for (const auto& list : lowered.stage) {
      std::map<std::pair<int, int>, std::size_t> reduced, last_pass;
      for (std::size_t k = 0; k < list.size(); ++k) {
        if (list[k].kind == Kind::reduce) {
          EXPECT_TRUE(reduced.emplace(std::pair{list[k].chunk, list[k].unit}, k).second);
        }
        if (list[k].kind == Kind::backward) last_pass[{list[k].chunk, list[k].unit}] = k;
      }
      EXPECT_EQ(reduced.size(), last_pass.size());
      for (const auto& [unit, k] : reduced) EXPECT_EQ(k, last_pass[unit] + 1) << s.name;
    }
  }
}

TEST(Lower, KeepsGatheredUnitsAsLongAsAsked) {
  const Schedule s = make_schedule("1f1b", 1, 2);
  LoweringOptions options;
  options.gathers = true, options.prefetch = 0, options.keep = KeepGathered::step;
  EXPECT_EQ(text(lower(s, {{2}}, options).stage[0]), "u0 w0 f0 u1 w1 f1 b1 b0 f0 f1 b1 -1 b0 -0");
  options.keep = KeepGathered::micro_batch;
  EXPECT_EQ(text(lower(s, {{2}}, options).stage[0]), "u0 w0 f0 u1 w1 f1 b1 -1 b0 f0 u1 w1 f1 b1 -1 b0 -0");
  options.keep = KeepGathered::layer;  // a unit that is used twice in a row stays
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]),
            "u0 w0 f0 -0 u1 w1 f1 -1 u2 w2 f2 b2 -2 u1 w1 b1 -1 u0 w0 b0 f0 -0 u1 w1 f1 -1 u2 w2 f2 b2 -2 u1 w1 b1 -1 u0 w0 b0 -0");
  options.prefetch = 1;
  EXPECT_EQ(text(lower(s, {{3}}, options).stage[0]),
            "u0 u1 w0 f0 -0 u2 w1 f1 -1 w2 f2 u1 b2 -2 u0 w1 b1 -1 w0 b0 u1 f0 -0 u2 w1 f1 -1 w2 f2 u1 b2 -2 u0 w1 b1 -1 w0 b0 -0");
}

TEST(Lower, NoPassRunsOnParametersThatAreNotThere) {
  for (const Schedule& s : schedules())
    for (const LoweringOptions& options : gathering_options()) {
      const Schedule lowered = lower(s, units_of(s), options);
      for (const auto& list : lowered.stage) {
        std::set<std::pair<int, int>> started, there;
        std::vector<std::pair<int, int>> starts, waits;
        for (const Instruction& i : list) {
          const std::pair<int, int> unit{i.chunk, i.unit};
          if (i.kind == Kind::unshard) {
            EXPECT_TRUE(!there.contains(unit) && started.insert(unit).second);
            starts.push_back(unit);
          }
          if (i.kind == Kind::wait_unshard) {
            EXPECT_EQ(started.erase(unit), 1U);
            there.insert(unit);
            waits.push_back(unit);
          }
          if (i.kind == Kind::reshard) {
            EXPECT_EQ(there.erase(unit), 1U);
          }
          if (is_computation(i.kind)) {
            EXPECT_TRUE(there.contains(unit)) << describe(i);
          }
        }
        EXPECT_TRUE(started.empty() && there.empty());
        EXPECT_EQ(starts, waits) << "gathers of one channel are waited for in the order in which they start";
      }
    }
}

TEST(Lower, CountsWhatIsLentAtOnce) {
  const Schedule s = make_schedule("1f1b", 1, 2);
  LoweringOptions options;
  // Sizes that no sum hides: unit u has one matrix of 16^u bytes.
  const auto apart = [](int, int unit) { return std::vector<LentMatrix>{{unit, std::int64_t{1} << (4 * unit), true}}; };
  const auto peak = [&](const auto& matrices) { return peak_lent(lower(s, {{3}}, options), 0, matrices); };
  // Nobody reduces: all gradients are alive at the end.
  EXPECT_EQ(peak(apart), 0x111);
  options.reduce = ReduceWhen::every;
  EXPECT_EQ(peak(apart), 0x111) << "memory of another size serves nobody else";
  // Equal sizes: a gradient, and the one that travels beside the pass.
  const auto equal = [](int, int unit) { return std::vector<LentMatrix>{{unit, 16, true}}; };
  EXPECT_EQ(peak(equal), 2 * 16);
  options.reduce_inside = false;
  EXPECT_EQ(peak(equal), 3 * 16) << "reduced behind the pass of the whole chunk";
  options.reduce_inside = true, options.reduce = ReduceWhen::last;
  EXPECT_EQ(peak(equal), 3 * 16) << "the first micro-batch leaves all of them to be added to";
  options.reduce = ReduceWhen::every, options.gathers = true;
  EXPECT_EQ(peak(equal), (3 + 2) * 16) << "kept for the step";
  options.keep = KeepGathered::layer, options.prefetch = 0;
  EXPECT_EQ(peak(equal), (1 + 2) * 16);
  options.prefetch = 1;
  EXPECT_EQ(peak(equal), (2 + 2) * 16);
  options.backward = false, options.prefetch = 2;
  EXPECT_EQ(peak(equal), 3 * 16) << "an evaluation";
  // A matrix that first and last unit read: once, from the last unit's backward pass to the first's reduction.
  const auto tied = [](int, int unit) { return unit == 1 ? std::vector<LentMatrix>{} : std::vector<LentMatrix>{{7, 16, unit == 0}}; };
  options = {};
  options.reduce = ReduceWhen::every;
  EXPECT_EQ(peak(tied), 16);
  options.gathers = true;
  EXPECT_EQ(peak(tied), 2 * 16);
}

TEST(Lower, RefusesWhatDoesNotFit) {
  const Schedule s = make_schedule("1f1b", 2, 2);
  EXPECT_THROW(lower(s, {{2}}, {}), UsageError);
  EXPECT_THROW(lower(s, {{2}, {0}}, {}), UsageError);
  EXPECT_THROW(lower(s, {{2}, {2, 2}}, {}), UsageError);
  LoweringOptions options;
  options.prefetch = -1;
  EXPECT_THROW(lower(s, {{2}, {2}}, options), UsageError);
}

TEST(LoweredWalk, TakesAsLongAsTheScheduleItWasMadeOfToTheBit) {
  const Random random(3, "durations");
  const InstructionCost cost = [&](int stage, const Instruction& i) {
    if (i.kind == Kind::reduce || i.kind == Kind::unshard) return 0.0;
    return 0.1 + random.uniform(static_cast<std::uint64_t>(((stage * 64 + i.micro) * 8 + i.chunk) * 8 + static_cast<int>(i.kind)));
  };
  LoweringOptions reduces;
  reduces.reduce = ReduceWhen::last;
  for (const Schedule& s : schedules())
    for (const SendMode mode : {SendMode::eager, SendMode::rendezvous, SendMode::departing}) {
      const Walk plain = walk(s, cost, mode);
      for (LoweringOptions options : {LoweringOptions{}, reduces, gathering_options()[0]}) {
        const Walk lowered = walk(lower(s, units_of(s), options), cost, mode);
        EXPECT_EQ(lowered.makespan, plain.makespan) << s.name;
        EXPECT_EQ(lowered.busy, plain.busy);
        EXPECT_EQ(lowered.sends_done, plain.sends_done);
        EXPECT_EQ(lowered.peak_live, plain.peak_live);
      }
    }
}

TEST(LoweredWalk, AGatherHoldsItsPassUpUnlessItIsPrefetched) {
  const Schedule s = make_schedule("1f1b", 1, 1);
  const InstructionCost cost = [](int, const Instruction& i) { return i.kind == Kind::unshard ? 2.0 : is_computation(i.kind) ? 12.0 : 1.0; };
  LoweringOptions options;
  options.gathers = true, options.keep = KeepGathered::layer, options.prefetch = 0;
  // Three units of 4: gathers of 2 in front of f0, f1, f2 (which stays for b2), b1 and b0.
  EXPECT_DOUBLE_EQ(walk(lower(s, {{3}}, options), cost).makespan, 24 + 5 * 2);
  options.prefetch = 1;  // only the first is in nobody's shadow, and the second starts behind it
  EXPECT_DOUBLE_EQ(walk(lower(s, {{3}}, options), cost).makespan, 24 + 2);
}

// Three units of 4, gathers of 2 and reductions of 6. The gather for b2 stays from the forward pass; those for b1 and b0 set out with b2 and b1. Behind the
// first gather the forward pass ends at 14 and b2 at 18, when its reduction sets out, and with b1 the gather for b0: both have half of the link.
TEST(LoweredWalk, AGatherAndAReductionUnderWayTogetherShareTheLink) {
  const Schedule s = make_schedule("1f1b", 1, 1);
  const InstructionCost cost = [](int, const Instruction& i) { return i.kind == Kind::unshard ? 2.0 : i.kind == Kind::reduce ? 6.0 : 12.0; };
  LoweringOptions options;
  options.gathers = true, options.keep = KeepGathered::layer, options.prefetch = 1, options.reduce = ReduceWhen::last;
  const Schedule lowered = lower(s, {{3}}, options);
  const Walk walked = walk(lowered, cost);
  double begin[3] = {}, end[3] = {};
  double gathered = 0;
  for (std::size_t k = 0; k < lowered.stage[0].size(); ++k) {
    const Instruction& i = lowered.stage[0][k];
    if (i.kind == Kind::reduce) begin[i.unit] = walked.stage[0][k].departure, end[i.unit] = walked.stage[0][k].arrival;
    if (i.kind == Kind::unshard) gathered = walked.stage[0][k].arrival;
  }
  EXPECT_DOUBLE_EQ(begin[2], 18);
  EXPECT_DOUBLE_EQ(gathered, 18 + 2 * 2);
  EXPECT_DOUBLE_EQ(walked.makespan, 26) << "which the pass of b1 hides";
  EXPECT_DOUBLE_EQ(end[2], 18 + 6 + 2) << "but the reduction pays for";
  EXPECT_DOUBLE_EQ(begin[1], 26);
  EXPECT_DOUBLE_EQ(walked.reduced[0], 26 + 2 * 6);
}

TEST(LoweredWalk, ReductionsFollowEachOtherBehindTheBackwardPass) {
  const Schedule s = make_schedule("1f1b", 1, 1);
  const InstructionCost cost = [](int, const Instruction& i) { return i.kind == Kind::reduce ? 5.0 : 12.0; };
  LoweringOptions options;
  options.reduce = ReduceWhen::last;
  const Walk inside = walk(lower(s, {{3}}, options), cost);
  EXPECT_DOUBLE_EQ(inside.makespan, 24);
  EXPECT_DOUBLE_EQ(inside.reduced[0], 16 + 3 * 5);
  options.reduce_inside = false;
  EXPECT_DOUBLE_EQ(walk(lower(s, {{3}}, options), cost).reduced[0], 24 + 3 * 5);
}

}  // namespace
}  // namespace thinwire
