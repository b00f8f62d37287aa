// labels: unit
// Every cell of a shipped study that reads captured traffic finds its input in the capture of the same
// profile.
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/study/expand.h"
#include "models/capture/capture_presets.h"
#include "support/source_folder.h"

namespace thinwire {
namespace {

std::string study_path(const std::string& profile) {
  return testing::source_folder() + "/experiments/studies/" + profile + ".toml";
}

std::vector<CaptureSlot> slots_of(const CaptureRunOptions& options) {
  CapturePlanOptions plan = options.plan;
  plan.hidden = options.model.hidden, plan.layers = options.model.layers, plan.vocab = options.model.vocab;
  std::vector<CaptureSlot> slots;
  for (const PlannedSlot& kept : plan_capture(plan).kept) slots.push_back(kept.slot);
  return slots;
}

/// What a cell asks for, with the defaults of the benches.
struct Wanted {
  std::int64_t batch, seq, tp, pp, dp;
  std::string tensor;

  explicit Wanted(const results::Parameters& p)
      : batch(integer(p, "batch", 8)),
        seq(integer(p, "seq", 128)),
        tp(integer(p, "tp", 1)),
        pp(integer(p, "pp", 1)),
        dp(integer(p, "dp", 2)),
        tensor(p.has("tensor") ? p.text("tensor") : "") {}
  static std::int64_t integer(const results::Parameters& p, const char* name, std::int64_t otherwise) {
    return p.has(name) ? p.integer(name) : otherwise;
  }
};

class StudyInputs : public ::testing::TestWithParam<const char*> {
 protected:
  CaptureRunOptions capture = capture_preset(GetParam());
  std::vector<CaptureSlot> slots = slots_of(capture);

  /// Late slots of a class at the cell's shape; an empty tensor stands for any.
  std::vector<CaptureSlot> find(const std::string& traffic, const Wanted& w,
                                const std::string& tensor = "") const {
    std::vector<CaptureSlot> found;
    std::copy_if(slots.begin(), slots.end(), std::back_inserter(found), [&](const CaptureSlot& s) {
      return s.traffic == traffic && s.point == "late" && s.batch == w.batch && s.seq == w.seq &&
             (tensor.empty() || s.tensor == tensor);
    });
    return found;
  }
};

TEST_P(StudyInputs, AreInTheCaptureOfTheProfile) {
  int checked = 0;
  for (const sweep::PlannedCell& cell : sweep::expand(sweep::read_study(study_path(GetParam())))) {
    const results::Parameters& p = cell.parameters;
    if (!p.has("capture")) continue;
    ++checked;
    SCOPED_TRACE(cell.program + " " + p.canonical_json());
    if (p.has("hidden")) {
      ASSERT_EQ(p.integer("hidden"), capture.model.hidden);
    }
    const Wanted wanted(p);
    if (cell.program == "bench_activation") {
      const auto sums = find("tp_forward", wanted);
      if (wanted.tp > 1) {
        ASSERT_TRUE(std::any_of(sums.begin(), sums.end(), [&](auto& s) { return s.parts == wanted.tp; }));
      }
      for (const char* traffic : {"pp_forward", "pp_backward"})
        ASSERT_GE(static_cast<std::int64_t>(find(traffic, wanted).size()), wanted.pp - 1)
            << "boundaries, " << traffic;
    } else if (cell.program == "bench_gradient") {
      const bool gathered = p.has("operation") && p.text("operation") == "all_gather";
      const auto matrices = find(gathered ? "param_all_gather" : "dp_gradient", wanted, wanted.tensor);
      ASSERT_FALSE(matrices.empty());
      ASSERT_GE(matrices.front().parts, gathered ? 1 : wanted.dp);
    } else if (cell.program == "bench_embedding") {
      for (const char* use : {"token.first_use", "token.last_use"}) {
        const auto table = find("embedding", wanted, use);
        ASSERT_EQ(table.size(), 1u) << use;
        ASSERT_GE(table.front().parts, wanted.dp) << use;
      }
    } else {
      ASSERT_EQ(cell.program, "bench_codec") << "this test does not know what the program reads";
      ASSERT_FALSE(find("tp_forward", wanted).empty());
    }
  }
  EXPECT_GT(checked, 5);
}

INSTANTIATE_TEST_SUITE_P(Shipped, StudyInputs, ::testing::Values("smoke", "quick", "standard", "full"),
                         [](const auto& profile) { return std::string(profile.param); });

TEST(CapturePreset, AnUnknownProfileIsAUsageErrorThatNamesThem) {
  try {
    capture_preset("qiuck");
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("smoke, quick, standard, full"), std::string::npos);
  }
}

}  // namespace
}  // namespace thinwire
