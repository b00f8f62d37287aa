// optimus_cc.C4: how many backward messages epilogue-only compression covers, counted on the schedule that the executor runs.
#include <algorithm>

#include "experiments/claims/claim.h"
#include "models/parallel/channels/epilogue.h"
#include "models/parallel/schedule/schedule.h"

namespace thinwire::claims {
namespace {

Finding measure(JudgeContext&) {
  int schedules = 0, wrong_count = 0, disagreements = 0;
  double share_4_16 = no_number;
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 32; ++m) {
      const Schedule schedule = make_schedule("1f1b", p, m);
      int sent = 0, received = 0, all = 0, expected = 0;
      for (int s = 0; s < p; ++s)
        for (const Instruction& i : schedule.stage[static_cast<std::size_t>(s)]) {
          if (i.kind == InstructionKind::send_backward) {
            ++all;
            sent += in_epilogue(i.micro, s, p, m);
          }
          if (i.kind == InstructionKind::receive_backward) received += in_epilogue(i.micro, i.peer, p, m);
        }
      for (int s = 1; s < p; ++s) expected += std::min(p - s, m);  // P (P - 1) / 2 from M = P - 1 on
      ++schedules;
      wrong_count += sent != expected || (m >= p - 1 && sent != p * (p - 1) / 2);
      disagreements += sent != received;
      if (p == 4 && m == 16) share_4_16 = static_cast<double>(sent) / all;
    }
  Finding f;
  f.measures = {{"schedules counted", static_cast<double>(schedules), no_number, no_number, no_number, ""},
                {"with another count than P(P-1)/2", static_cast<double>(wrong_count), no_number, no_number, 0, "", "others"},
                {"with ends that disagree", static_cast<double>(disagreements), no_number, no_number, 0, "", "disagreements"},
                {"share at P = 4, M = 16", share_4_16, no_number, no_number, 0.125, "", "share"}};
  return f;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C4",
     .statement = "Epilogue-only compresses the fraction P/(2M) of the backward sends.",
     .provenance = "derived from the released code",
     .basis = Basis::exact,
     .rule = {.settings = {{"schedule", "1f1b"}, {"P", "2 to 8"}, {"M", "1 to 32"}},
              .quantities = {{"others", "schedules whose number of compressed backward sends is not P(P-1)/2, for M below P - 1 the sum of min(P - s, M) over stages s"},
                             {"disagreements", "schedules whose receivers count otherwise than its senders"},
                             {"share", "compressed of all backward sends at P = 4, M = 16"}},
              .constants = {{"expected", 0.125, "P/(2M) at P = 4, M = 16"}},
              .clauses = {{Verdict::pass, "others == 0 && disagreements == 0 && share == expected"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
