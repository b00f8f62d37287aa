// labels: unit
// The epilogue rule against worked sets, its closed count, and the phases of the schedule that the executor runs.
#include <gtest/gtest.h>

#include <set>

#include "models/parallel/channels/epilogue.h"
#include "models/parallel/schedule/schedule.h"

namespace thinwire {
namespace {

std::set<int> epilogue_of(int sender, int stages, int micro_batches) {
  std::set<int> found;
  for (int i = 0; i < micro_batches; ++i)
    if (in_epilogue(i, sender, stages, micro_batches)) found.insert(i);
  return found;
}

// docs/papers/optimus_cc.md, "Worked examples" 4.
TEST(Epilogue, IsTheSetOfTheWorkedExamples) {
  EXPECT_EQ(epilogue_of(1, 4, 16), (std::set<int>{13, 14, 15}));
  EXPECT_EQ(epilogue_of(2, 4, 16), (std::set<int>{14, 15}));
  EXPECT_EQ(epilogue_of(3, 4, 16), (std::set<int>{15}));
  EXPECT_EQ(epilogue_of(1, 2, 8), (std::set<int>{7}));
  EXPECT_EQ(epilogue_of(1, 4, 2), (std::set<int>{0, 1}));
  EXPECT_EQ(epilogue_of(2, 4, 2), (std::set<int>{0, 1}));
  EXPECT_EQ(epilogue_of(3, 4, 2), (std::set<int>{1}));
}

TEST(Epilogue, IsWhatTheScheduleSendsInItsCoolDownAndBothEndsAgree) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 32; ++m) {
      const Schedule schedule = make_schedule("1f1b", p, m);
      int sent = 0, received = 0;
      for (int stage = 0; stage < p; ++stage)
        for (std::size_t k = 0; k < schedule.stage[static_cast<std::size_t>(stage)].size(); ++k) {
          const Instruction& i = schedule.stage[static_cast<std::size_t>(stage)][k];
          if (i.kind == InstructionKind::send_backward) {
            const bool cools = phase_of(schedule, stage, static_cast<int>(k)) == Phase::cool_down;
            EXPECT_EQ(in_epilogue(i.micro, stage, p, m), cools) << "p " << p << " m " << m << " stage " << stage << " micro " << i.micro;
            sent += in_epilogue(i.micro, stage, p, m);
          }
          if (i.kind == InstructionKind::receive_backward) received += in_epilogue(i.micro, i.peer, p, m);
        }
      int expected = 0;
      for (int s = 1; s < p; ++s) expected += std::min(p - s, m);
      EXPECT_EQ(sent, expected) << "p " << p << " m " << m;
      EXPECT_EQ(received, expected) << "p " << p << " m " << m;
      if (m >= p - 1) {
        EXPECT_EQ(expected, p * (p - 1) / 2);
      }
    }
}

}  // namespace
}  // namespace thinwire
