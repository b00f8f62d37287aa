// labels: unit
// timeout: 120
// Pipeline schedules as data: what must hold for every schedule, over stages 1..8, micro-batches 1..32 and
// virtual stages 1..4; and that a broken schedule is noticed, property by property.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "models/parallel/schedule/schedule.h"
#include "models/parallel/schedule/token_slices.h"
#include "models/parallel/schedule/validate.h"
#include "models/parallel/schedule/walk.h"

namespace thinwire {
namespace {

using Kind = InstructionKind;

std::string label(const Schedule& s) {
  return s.name + " P=" + std::to_string(s.stages) + " M=" + std::to_string(s.micro_batches) +
         " V=" + std::to_string(s.virtual_stages);
}

/// Every schedule within the extents of the specification: about 600.
void for_every_schedule(const std::function<void(const Schedule&)>& judge) {
  int count = 0;
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      for (const std::string name : {"gpipe", "1f1b"}) judge(make_schedule(name, p, m)), ++count;
      for (int v = 1; v <= (p == 1 ? 1 : 4); ++v)
        if (m % p == 0) judge(make_schedule("interleaved", p, m, v)), ++count;
    }
  }
  EXPECT_GT(count, 700);
}

/// Durations that differ in every instruction, so that no order of events is favoured.
InstructionCost random_cost(std::uint64_t seed) {
  return [random = Random(seed, "durations")](int stage, const Instruction& i) {
    const auto index = ((static_cast<std::uint64_t>(stage) * 64 + static_cast<std::uint64_t>(i.micro)) * 8 +
                        static_cast<std::uint64_t>(i.chunk)) *
                           8 +
                       static_cast<std::uint64_t>(i.kind);
    return 0.01 + static_cast<double>(random.below(index, 1000)) / 1000;
  };
}

/// "f0 S0 r0 b0": one letter for the kind (r/R receive, f forward, b backward, s/S send; capitals for forward
/// messages), then the micro-batch, then ' per chunk above 0.
std::string notation(const std::vector<Instruction>& list) {
  std::string text;
  for (const Instruction& i : list) {
    text += text.empty() ? "" : " ";
    text += std::string(1, "RfSrbs"[static_cast<int>(i.kind)]) + std::to_string(i.micro) +
            std::string(static_cast<std::size_t>(i.chunk), '\'');
  }
  return text;
}

bool has(const Schedule& s, ScheduleProperty property) {
  const auto found = violations(s);
  return std::ranges::any_of(found, [&](const ScheduleViolation& v) { return v.property == property; });
}

bool walks(const Schedule& s, SendMode mode = SendMode::eager) {
  try {
    walk(s, uniform_cost(1, 2, 0.1), mode);
    return true;
  } catch (const RuntimeFailure&) {
    return false;
  }
}

TEST(Schedule, IsAsDrawnInThePapers) {
  const Schedule gpipe = make_schedule("gpipe", 2, 3);
  EXPECT_EQ(notation(gpipe.stage[0]), "f0 S0 f1 S1 f2 S2 r0 b0 r1 b1 r2 b2");
  EXPECT_EQ(notation(gpipe.stage[1]), "R0 f0 R1 f1 R2 f2 b0 s0 b1 s1 b2 s2");
  const Schedule plain = make_schedule("1f1b", 3, 3);
  EXPECT_EQ(notation(plain.stage[0]), "f0 S0 f1 S1 f2 S2 r0 b0 r1 b1 r2 b2");
  EXPECT_EQ(notation(plain.stage[1]), "R0 f0 S0 R1 f1 S1 r0 b0 s0 R2 f2 S2 r1 b1 s1 r2 b2 s2");
  EXPECT_EQ(notation(plain.stage[2]), "R0 f0 b0 s0 R1 f1 b1 s1 R2 f2 b2 s2");
  // Narayanan et al. 2021, figure 4: stages and chunks in turn, P micro-batches at a time.
  const Schedule two = make_schedule("interleaved", 2, 4, 2);
  EXPECT_EQ(notation(two.stage[1]),
            "R0 f0 S0 R1 f1 S1 R0' f0' b0' s0' R1' f1' b1' s1' R2 f2 S2 r0 b0 s0 R3 f3 S3 r1 b1 s1 "
            "R2' f2' b2' s2' R3' f3' b3' s3' r2 b2 s2 r3 b3 s3");
}

TEST(TerapipeSchedule, StreamsSlicesThroughAndTakesEverythingBackInReverse) {
  const Schedule s = make_schedule("terapipe", 2, 2, 1, 2);
  const auto sliced = [](const std::vector<Instruction>& list) {
    std::string text;
    for (const Instruction& i : list)
      text += (text.empty() ? "" : " ") + std::string(1, "RfSrbs"[static_cast<int>(i.kind)]) + std::to_string(i.micro) + "." + std::to_string(i.slice);
    return text;
  };
  EXPECT_EQ(sliced(s.stage[0]), "f0.0 S0.0 f0.1 S0.1 f1.0 S1.0 f1.1 S1.1 r1.1 b1.1 r1.0 b1.0 r0.1 b0.1 r0.0 b0.0");
  EXPECT_EQ(sliced(s.stage[1]), "R0.0 f0.0 R0.1 f0.1 R1.0 f1.0 R1.1 f1.1 b1.1 s1.1 b1.0 s1.0 b0.1 s0.1 b0.0 s0.0");
}

TEST(TerapipeSchedule, IsSoundRunsThroughAndKeepsEverySlice) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 5; ++m)
      for (int slices = 1; slices <= 6; ++slices) {
        const Schedule s = make_schedule("terapipe", p, m, 1, slices);
        const auto found = violations(s);
        EXPECT_TRUE(found.empty()) << label(s) << ": " << found.front().what;
        for (const SendMode mode : {SendMode::eager, SendMode::rendezvous}) EXPECT_NO_THROW(walk(s, random_cost(20261121), mode)) << label(s);
        EXPECT_NEAR(walk(s, uniform_cost(1, 2, 0)).bubble_fraction(), (p - 1.0) / (m * slices + p - 1), 1e-12) << label(s);
        for (int stage = 0; stage < p; ++stage) EXPECT_EQ(peak_live_activations(s, stage), m * slices);
      }
  EXPECT_THROW(make_schedule("1f1b", 2, 2, 1, 2), UsageError);
  EXPECT_THROW(make_schedule("terapipe", 2, 2, 1, 0), UsageError);
}

TEST(TerapipeSchedule, TakesTheSumOfTheSliceTimesAndTheLargestForEveryStageBehind) {
  // Backward passes twice as long as forward ones: the slowest slice is the same in both, and the closed form holds exactly.
  const Random random(20261121, "slices");
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 3; ++m) {
      std::vector<int> slices;
      for (int n = 0; n < 2 + p % 4; ++n) slices.push_back(1 + static_cast<int>(random.below(static_cast<std::uint64_t>(p * 10 + n), 20)));
      const SliceTime t = [](int s, int c) { return 3 + s + 0.1 * s * (2 * c + s); };
      std::vector<double> times;
      int context = 0;
      for (const int s : slices) times.push_back(t(s, context)), context += s;
      const Walk w = walk(make_schedule("terapipe", p, m, 1, static_cast<int>(slices.size())), [&](int, const Instruction& i) {
        const double all = times[static_cast<std::size_t>(i.slice)];
        return i.kind == Kind::forward ? all / 3 : i.kind == Kind::backward ? 2 * all / 3 : 0.0;
      });
      const std::vector<SlicedBatch> batches(static_cast<std::size_t>(m), SlicedBatch{1, slices});
      EXPECT_NEAR(w.makespan, sliced_step([&](int, int s, int c) { return t(s, c); }, batches, p), 1e-9) << "P " << p << " M " << m;
    }
}

TEST(TerapipeSchedule, SlicesOutOfOrderAreNoticed) {
  Schedule s = make_schedule("terapipe", 1, 1, 1, 2);
  std::swap(s.stage[0][0], s.stage[0][1]);
  EXPECT_TRUE(has(s, ScheduleProperty::order)) << "forward of the second slice before the first";
  s = make_schedule("terapipe", 1, 1, 1, 2);
  std::swap(s.stage[0][2], s.stage[0][3]);
  EXPECT_TRUE(has(s, ScheduleProperty::order)) << "backward of the first slice before the second";
  s = make_schedule("terapipe", 2, 1, 1, 2);
  std::swap(s.stage[0][1], s.stage[0][3]);
  EXPECT_TRUE(has(s, ScheduleProperty::message_order)) << "slices sent in another order than received";
}

TEST(Schedule, RunsEachMicroBatchThroughEachChunkOnceForwardThenBackward) {
  for_every_schedule([](const Schedule& s) {
    for (const auto& list : s.stage) {
      std::set<std::pair<int, int>> forward, backward;
      for (const Instruction& i : list) {
        if (i.kind == Kind::forward) {
          EXPECT_TRUE(forward.insert({i.micro, i.chunk}).second) << label(s);
        }
        if (i.kind == Kind::backward) {
          EXPECT_TRUE(forward.contains({i.micro, i.chunk})) << label(s);
          EXPECT_TRUE(backward.insert({i.micro, i.chunk}).second) << label(s);
        }
      }
      EXPECT_EQ(static_cast<int>(backward.size()), s.micro_batches * s.virtual_stages) << label(s);
      EXPECT_EQ(forward, backward) << label(s);
    }
  });
}

TEST(Schedule, IsSoundByEveryProperty) {
  for_every_schedule([](const Schedule& s) {
    const auto found = violations(s);
    EXPECT_TRUE(found.empty()) << label(s) << ": " << found.front().what;
  });
}

TEST(Schedule, KeepsAsManyActivationsAsThePapersSay) {
  for_every_schedule([](const Schedule& s) {
    const int p = s.stages, m = s.micro_batches, v = s.virtual_stages;
    for (int stage = 0; stage < p; ++stage) {
      // Interleaved: Megatron-LM's number of warm-up forwards, and the one of the first pair.
      const int bound = s.name == "gpipe" ? m
                        : v == 1          ? std::min(m, p - stage)
                                          : std::min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1);
      EXPECT_EQ(peak_live_activations(s, stage), bound) << label(s) << " stage " << stage;
    }
  });
}

TEST(Schedule, RunsThroughWithBlockingReceivesWhateverTheDurations) {
  constexpr std::uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  for_every_schedule([](const Schedule& s) {
    for (const SendMode mode : {SendMode::eager, SendMode::rendezvous})
      EXPECT_NO_THROW(walk(s, random_cost(seed), mode)) << label(s);
  });
}

TEST(Schedule, BubbleIsTheClosedForm) {
  for_every_schedule([](const Schedule& s) {
    const double p = s.stages, m = s.micro_batches, v = s.virtual_stages;
    for (const auto& [f, b] : {std::pair{1.0, 1.0}, {1.0, 2.0}, {3.0, 1.0}}) {
      const Walk w = walk(s, uniform_cost(f, b, 0));
      EXPECT_NEAR(w.bubble_fraction(), (p - 1) / (v * m + p - 1), 1e-12) << label(s);
      EXPECT_NEAR(w.makespan, (m * v + p - 1) * (f + b), 1e-9) << label(s);
    }
  });
}

TEST(Schedule, MessagesBetweenTwoStagesThatAreNeighboursTwice) {
  // With P = 2 and chunks the wrap-around goes to the same rank as the step forward: 0 -> 1 and 1 -> 0 carry
  // both directions.
  const Schedule s = make_schedule("interleaved", 2, 4, 3);
  for (int stage = 0; stage < 2; ++stage)
    for (const Instruction& i : s.stage[static_cast<std::size_t>(stage)])
      EXPECT_EQ(i.peer, i.kind == Kind::forward || i.kind == Kind::backward ? -1 : 1 - stage);
  int to_next_chunk = 0;
  for (const Instruction& i : s.stage[1]) to_next_chunk += i.kind == Kind::send_forward;
  EXPECT_EQ(to_next_chunk, 4 * 2);  // every micro-batch but for the last chunk
}

TEST(Schedule, OneStageSendsNothing) {
  for (const std::string& name : schedule_names()) {
    const Schedule s = make_schedule(name, 1, 5);
    for (const Instruction& i : s.stage[0])
      EXPECT_TRUE(i.kind == Kind::forward || i.kind == Kind::backward) << name;
  }
}

TEST(Schedule, CoolDownSendsTheLastGradientsOfAStep) {
  for (const std::string& name : schedules_that(&ScheduleTraits::epilogue))
    for (const auto& [p, m] : {std::pair{4, 16}, {2, 8}, {4, 2}, {8, 32}, {3, 3}, {5, 1}}) {
      const Schedule s = make_schedule(name, p, m);
      for (int stage = 0; stage < p; ++stage) {
        std::vector<int> epilogue, wanted;
        const auto& list = s.stage[static_cast<std::size_t>(stage)];
        for (int k = 0; k < static_cast<int>(list.size()); ++k)
          if (list[static_cast<std::size_t>(k)].kind == Kind::send_backward &&
              phase_of(s, stage, k) == Phase::cool_down)
            epilogue.push_back(list[static_cast<std::size_t>(k)].micro);
        if (stage > 0)
          for (int micro = m - std::min(p - stage, m); micro < m; ++micro) wanted.push_back(micro);
        EXPECT_EQ(epilogue, wanted) << label(s) << " stage " << stage;
      }
    }
}

TEST(Schedule, WhatAScheduleCanAndAsksForIsWhatItsTraitsSay) {
  const auto makes = [](const std::string& name, int micro_batches, int chunks, int slices) {
    try {
      (void)make_schedule(name, 4, micro_batches, chunks, slices);
      return true;
    } catch (const UsageError&) {
      return false;
    }
  };
  for (const std::string& name : schedule_names()) {
    const ScheduleTraits& can = schedule_traits(name);
    EXPECT_TRUE(makes(name, 8, 1, 1)) << name;
    EXPECT_EQ(makes(name, 8, 2, 1), can.virtual_stages) << name;
    EXPECT_EQ(makes(name, 8, 1, 2), can.token_slices) << name;
    EXPECT_EQ(makes(name, 6, 1, 1), !can.rounds_of_stages) << name;
  }
  EXPECT_EQ(schedules_that(&ScheduleTraits::virtual_stages), std::vector<std::string>{"interleaved"});
  EXPECT_EQ(schedules_that(&ScheduleTraits::token_slices), std::vector<std::string>{"terapipe"});
  EXPECT_EQ(schedules_that(&ScheduleTraits::epilogue), std::vector<std::string>{"1f1b"});
  EXPECT_THROW((void)schedule_traits("2f2b"), UsageError);
}

TEST(Schedule, PhasesFollowEachOther) {
  for_every_schedule([](const Schedule& s) {
    for (int stage = 0; stage < s.stages; ++stage) {
      Phase before = Phase::warm_up;
      const auto& list = s.stage[static_cast<std::size_t>(stage)];
      for (int k = 0; k < static_cast<int>(list.size()); ++k) {
        const Phase phase = phase_of(s, stage, k);
        EXPECT_GE(phase, before) << label(s);
        const bool gradient = list[static_cast<std::size_t>(k)].kind >= Kind::receive_backward;
        EXPECT_FALSE(gradient && phase == Phase::warm_up) << label(s);
        EXPECT_FALSE(!gradient && phase == Phase::cool_down) << label(s);
        before = phase;
      }
      EXPECT_EQ(before, Phase::cool_down) << label(s);
    }
  });
}

/// Derived, with tf = 1, tb = 3, latency c = 0.3 on every edge, and c / 42 where a backward message is
/// compressed.
TEST(Walk, MakespanOf1F1BWithTransfers) {
  struct Case {
    int p, m;
    double none, epilogue, all;
  };
  for (const Case& c : {Case{4, 16, 84.4, 83.5214, 80.3},
                        {4, 8, 48.8, 47.9214, 46.4571},
                        {2, 8, 38.4, 38.1071, 37.2286},
                        {8, 32, 176.4, 174.35, 166.4429}}) {
    const Schedule s = make_schedule("1f1b", c.p, c.m);
    const auto makespan = [&](const std::function<bool(int stage, int micro)>& compressed) {
      const auto plain = uniform_cost(1, 3, 0.3);
      return walk(s,
                  [&](int stage, const Instruction& i) {
                    return plain(stage, i).total() /
                           (i.kind == Kind::send_backward && compressed(stage, i.micro) ? 42 : 1);
                  })
          .makespan;
    };
    EXPECT_NEAR(makespan([](int, int) { return false; }), c.none, 1e-4) << label(s);
    EXPECT_NEAR(makespan([&](int stage, int micro) { return micro >= c.m - std::min(c.p - stage, c.m); }),
                c.epilogue, 1e-4)
        << label(s);
    EXPECT_NEAR(makespan([](int, int) { return true; }), c.all, 1e-4) << label(s);
  }
}

TEST(Walk, ReceivesWaitForTheirTransferAndTransfersOfAPairFollowEachOther) {
  // Two forwards of 1, transfers of 5: the second message leaves when the first has arrived.
  const Schedule s = make_schedule("gpipe", 2, 2);
  const Walk w = walk(s, uniform_cost(1, 1, 5));
  const auto& at_1 = w.stage[1];  // R0 f0 R1 f1 b0 s0 b1 s1
  EXPECT_DOUBLE_EQ(at_1[0].start, 0);
  EXPECT_DOUBLE_EQ(at_1[0].end, 6);
  EXPECT_DOUBLE_EQ(at_1[2].end, 11);
  EXPECT_DOUBLE_EQ(at_1[7].end, 14);
  EXPECT_DOUBLE_EQ(w.makespan, 13 + 5 + 5 + 1);
  EXPECT_DOUBLE_EQ(w.busy[0], 4);
  EXPECT_EQ(w.peak_live, (std::vector<int>{2, 2}));
}

TEST(Walk, MeetingLaterNeverEndsEarlier) {
  constexpr std::uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const Schedule& s :
       {make_schedule("gpipe", 4, 8), make_schedule("1f1b", 4, 8), make_schedule("interleaved", 4, 8, 2)})
    EXPECT_GE(walk(s, random_cost(seed), SendMode::rendezvous).makespan,
              walk(s, random_cost(seed), SendMode::eager).makespan - 1e-12)
        << label(s);
}

TEST(Walk, SendsThatBlockLock1F1BUpAndTheStuckStagesAreNamed) {
  // Stage 0 wants to hand over micro-batch 1 while stage 1 wants to hand back the gradient of micro-batch 0.
  EXPECT_TRUE(walks(make_schedule("gpipe", 2, 4), SendMode::blocking));
  EXPECT_FALSE(walks(make_schedule("1f1b", 4, 8), SendMode::blocking));
  try {
    walk(make_schedule("1f1b", 2, 4), uniform_cost(1, 1, 1), SendMode::blocking);
    FAIL() << "no cyclic wait was found";
  } catch (const RuntimeFailure& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("stage 0 at instruction 3, send_forward of micro-batch 1, chunk 0, with stage 1"),
              std::string::npos)
        << what;
    EXPECT_NE(what.find("stage 1 at instruction 3, send_backward of micro-batch 0, chunk 0, with stage 0"),
              std::string::npos)
        << what;
  }
}

// ---- broken schedules -----------------------------------------------------------------------------------

const std::vector<Schedule>& victims() {
  static const std::vector<Schedule> all = {
      make_schedule("gpipe", 3, 4), make_schedule("1f1b", 3, 4), make_schedule("1f1b", 2, 3),
      make_schedule("interleaved", 2, 4, 2), make_schedule("interleaved", 3, 3, 2)};
  return all;
}

TEST(BrokenSchedule, AnyMissingInstructionIsIncomplete) {
  for (const Schedule& sound : victims()) {
    for (std::size_t stage = 0; stage < sound.stage.size(); ++stage) {
      for (std::size_t k = 0; k < sound.stage[stage].size(); ++k) {
        Schedule s = sound;
        const Instruction gone = s.stage[stage][k];
        s.stage[stage].erase(s.stage[stage].begin() + static_cast<std::ptrdiff_t>(k));
        EXPECT_TRUE(has(s, ScheduleProperty::completeness)) << label(s) << ": " << describe(gone);
        EXPECT_THROW(require_sound(s), RuntimeFailure);
        if (gone.peer < 0) continue;
        EXPECT_TRUE(has(s, ScheduleProperty::message_order)) << label(s) << ": " << describe(gone);
        EXPECT_FALSE(walks(s)) << label(s) << ": " << describe(gone);
      }
    }
  }
}

TEST(BrokenSchedule, AnyRepeatedInstructionIsNoticed) {
  for (const Schedule& sound : victims()) {
    for (std::size_t stage = 0; stage < sound.stage.size(); ++stage) {
      for (std::size_t k = 0; k < sound.stage[stage].size(); ++k) {
        Schedule s = sound;
        s.stage[stage].insert(s.stage[stage].begin() + static_cast<std::ptrdiff_t>(k), s.stage[stage][k]);
        EXPECT_TRUE(has(s, ScheduleProperty::completeness)) << label(s);
        EXPECT_TRUE(has(s, ScheduleProperty::order)) << label(s);
      }
    }
  }
}

TEST(BrokenSchedule, AnySwapWithinAMicroBatchOrOnARoadIsNoticed) {
  for (const Schedule& sound : victims()) {
    for (std::size_t stage = 0; stage < sound.stage.size(); ++stage) {
      const auto& list = sound.stage[stage];
      for (std::size_t a = 0; a < list.size(); ++a) {
        for (std::size_t b = a + 1; b < list.size(); ++b) {
          Schedule s = sound;
          std::swap(s.stage[stage][a], s.stage[stage][b]);
          if (list[a].micro == list[b].micro && list[a].chunk == list[b].chunk) {
            EXPECT_TRUE(has(s, ScheduleProperty::order))
                << label(s) << ": " << describe(list[a]) << " and " << describe(list[b]);
          }
          if (list[a].kind == list[b].kind && list[a].peer >= 0 && list[a].peer == list[b].peer) {
            EXPECT_TRUE(has(s, ScheduleProperty::message_order)) << label(s) << ": " << describe(list[a]);
            EXPECT_FALSE(walks(s)) << label(s) << ": " << describe(list[a]) << " and " << describe(list[b]);
          }
        }
      }
    }
  }
}

TEST(BrokenSchedule, AMessageToTheWrongStageIsNoticed) {
  for (const Schedule& sound : victims()) {
    for (std::size_t stage = 0; stage < sound.stage.size(); ++stage) {
      for (std::size_t k = 0; k < sound.stage[stage].size(); ++k) {
        Schedule s = sound;
        Instruction& i = s.stage[stage][k];
        i.peer = i.peer < 0 ? 0 : (i.peer + 1) % s.stages;
        EXPECT_TRUE(has(s, ScheduleProperty::peers)) << label(s) << ": " << describe(i);
        if (i.kind != Kind::forward && i.kind != Kind::backward) {
          EXPECT_FALSE(walks(s)) << label(s) << ": " << describe(i);
        }
      }
    }
  }
}

TEST(BrokenSchedule, ACyclicWaitIsFoundThoughBothEndsAgreeInOrder) {
  // Stage 0 asks for the first gradient before it sends what that is the gradient of; no message is out of
  // order on its road.
  Schedule s = make_schedule("1f1b", 2, 2);
  auto& list = s.stage[0];  // f0 S0 f1 S1 r0 b0 r1 b1
  std::rotate(list.begin() + 1, list.begin() + 4, list.begin() + 5);
  EXPECT_FALSE(has(s, ScheduleProperty::message_order));
  EXPECT_FALSE(walks(s));
}

TEST(BrokenSchedule, WorkFromOutsideOrForMissingStagesIsNoticed) {
  Schedule s = make_schedule("1f1b", 2, 2);
  s.stage[0][0].micro = 2;
  EXPECT_TRUE(has(s, ScheduleProperty::completeness));
  s = make_schedule("1f1b", 2, 2);
  s.stage.pop_back();
  EXPECT_TRUE(has(s, ScheduleProperty::completeness));
}

TEST(BrokenSchedule, OneWarmUpForwardLessIsSoundButSlowerAndOneMoreKeepsMore) {
  const Schedule good = make_schedule("1f1b", 4, 8);
  Schedule late =
      good;  // stage 0: first backward one forward earlier; f0..f3 r0 b0 becomes f0 f1 f2 r0 b0 f3
  auto& list = late.stage[0];
  const auto back = std::ranges::find(list, Kind::receive_backward, &Instruction::kind);
  std::rotate(back - 2, back, back + 2);
  EXPECT_TRUE(violations(late).empty());
  EXPECT_GT(walk(late, uniform_cost(1, 1, 0)).bubble_fraction(),
            walk(good, uniform_cost(1, 1, 0)).bubble_fraction() + 0.01);
  Schedule greedy = make_schedule("1f1b", 4, 8);
  greedy.stage = make_schedule("gpipe", 4, 8).stage;
  EXPECT_TRUE(violations(greedy).empty());
  EXPECT_GT(peak_live_activations(greedy, 0), std::min(8, 4));
}

// ---- what the user asks for -----------------------------------------------------------------------------

void expect_refused(const std::string& name, int p, int m, int v, const std::vector<std::string>& words) {
  try {
    make_schedule(name, p, m, v);
    ADD_FAILURE() << name << " " << p << " " << m << " " << v << " was accepted";
  } catch (const UsageError& e) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
  }
}

TEST(Schedule, RefusesWhatCannotBeNamingTheNumbers) {
  expect_refused("zero_bubble", 2, 2, 1, {"zero_bubble", "gpipe", "1f1b", "interleaved"});
  expect_refused("1f1b", 0, 2, 1, {"stages", "0"});
  expect_refused("gpipe", 2, 0, 1, {"micro-batches", "0"});
  expect_refused("interleaved", 2, 2, 0, {"virtual stages", "0"});
  expect_refused("1f1b", 2, 4, 2, {"1f1b", "2", "interleaved"});
  expect_refused("gpipe", 2, 4, 3, {"gpipe", "3"});
  expect_refused("interleaved", 4, 6, 2, {"(6)", "(4)"});
  expect_refused("interleaved", 1, 4, 2, {"2 virtual stages", "1"});
}

}  // namespace
}  // namespace thinwire
