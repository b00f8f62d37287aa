// labels: mpi
// ranks: 4
// timeout: 400
// One rank that sends itself the backward messages of its boundaries (--boundary-stages) trains as the four ranks of a 1f1b pipeline do, and its
// meter counts the bytes that theirs count.
#include "models/parallel/pipeline/local_boundaries.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "models/optimizer/diverged.h"
#include "models/training/checkpoint/checkpoint.h"
#include "results/hdf5/hdf5.h"
#include "support/temporary_folder.h"
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

TrainConfig small(const std::string& codec, bool epilogue_only, DType dtype = DType::f32) {
  TrainConfig c = parity_config();
  c.dtype = dtype, c.comm_dtype = DType::f32;
  c.model.layers = 4;
  c.micro_batch = 2, c.global_batch = 2 * 8;
  c.mesh.pp = 4;
  c.error_interval = dtype == DType::f32 ? 4 : 0;
  if (codec == uncompressed) return c;
  c.compress[TrafficClass::pp_backward].codec = codec;
  c.compress[TrafficClass::pp_backward].epilogue_only = epilogue_only;
  return c;
}

TrainConfig in_one(TrainConfig c) {
  c.boundary_stages = c.mesh.pp;
  c.mesh.pp = 1;
  return c;
}

/// What a run leaves. Traffic: of pp_backward over all steps, this rank's share.
struct Run {
  RunCurve curve;
  std::map<std::string, std::vector<double>> state;  ///< by name in the checkpoint, on rank 0 of the group
  std::vector<double> traffic = std::vector<double>(6, 0.0);  ///< messages and link bytes, coded and dense; squares of error and reference
};

Run run(Communicator& group, const TrainConfig& c, const Corpus& corpus, const std::string& file) {
  Run r;
  const auto trainer = ParallelTrainer::make(group, c, corpus);
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord step = trainer->step();
    r.curve.loss.push_back(step.loss);
    r.curve.norm.push_back(step.gradient_norm);
    for (const TrafficRecord& record : step.traffic) {
      if (record.traffic != TrafficClass::pp_backward) continue;
      const std::size_t at = record.codec == uncompressed ? 2 : 0;
      // A meter counts both ends of a message; bytes are the sender's.
      r.traffic[at] += static_cast<double>(record.operations);
      r.traffic[at + 1] += static_cast<double>(record.total.link_bytes);
      r.traffic[4] += record.error_squared, r.traffic[5] += record.reference_squared;
    }
  }
  r.curve.validation = trainer->validate();
  save_checkpoint(group, *trainer, c, file);
  if (group.rank() != 0) return r;
  const h5::File saved = h5::File::open_read(file);
  for (const char* kind : {"weights", "first_moment", "second_moment"})
    for (const std::string& name : saved.group(kind).names()) {
      const std::string path = std::string(kind) + "/" + name;
      const Tensor values = saved.read(path);
      for (std::int64_t i = 0; i < values.elements(); ++i)
        r.state[path].push_back(values.dtype() == DType::f64 ? values.as<double>()[static_cast<std::size_t>(i)] : static_cast<double>(values.as<float>()[static_cast<std::size_t>(i)]));
    }
  return r;
}

/// Largest difference of the weights and moments, each tensor against its largest element.
double apart(const Run& a, const Run& b) {
  double worst = a.state.size() == b.state.size() ? 0 : INFINITY;
  for (const auto& [name, x] : a.state) {
    const std::vector<double>& y = b.state.at(name);
    double difference = x.size() == y.size() ? 0 : INFINITY, largest = 1e-300;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) difference = std::max(difference, std::abs(x[i] - y[i])), largest = std::max(largest, std::abs(y[i]));
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

struct Pair {
  Run ranks, one;
};
/// Both on rank 0; the other ranks return what they have.
Pair both(const TrainConfig& c, const Corpus& corpus) {
  static const TemporaryFolder folder;
  Pair p;
  p.ranks = run(world(), c, corpus, folder.path() + "/ranks.h5");
  std::vector<double> sums(p.ranks.traffic.size());
  world().all_reduce(p.ranks.traffic.data(), sums.data(), static_cast<std::int64_t>(sums.size()), DType::f64, ReduceOp::sum)->wait();
  p.ranks.traffic = sums;
  const auto alone = world().split(world().rank(), 0);
  if (world().rank() == 0) p.one = run(*alone, in_one(c), corpus, folder.path() + "/one.h5");
  world().barrier();
  return p;
}

// In f32 everything that is summed is summed in one order on both sides, but for the squares of the gradient norm (f64: stage by stage there,
// through the model here), whose last bit does not survive the clip factor's rounding to f32.
TEST(LocalBoundaries, LossesAndWeightsAreBitEqualToThoseOfFourRanks) {
  const Corpus corpus = Corpus::from_text(parity_text(), "local boundaries");
  double dense_loss = 0;
  for (const bool epilogue_only : {false, true})
    for (const char* codec : {"none", "powersgd:rank=2+lep", "powersgd:rank=2+lep:leftover=drop", "powersgd:rank=2", "topk:fraction=0.1+lep", "quantize:bits=4", "randomk:fraction=0.3"}) {
      const TrainConfig c = small(codec, epilogue_only);
      const Pair p = both(c, corpus);
      if (world().rank() != 0) continue;
      const std::string what = std::string(codec) + (epilogue_only ? ", epilogue only" : "");
      EXPECT_EQ(p.one.curve.loss, p.ranks.curve.loss) << what;
      EXPECT_EQ(p.one.curve.validation, p.ranks.curve.validation) << what;
      EXPECT_EQ(apart(p.one, p.ranks), 0) << what;
      for (std::size_t s = 0; s < p.one.curve.norm.size(); ++s) EXPECT_NEAR(p.one.curve.norm[s], p.ranks.curve.norm[s], 1e-12 * p.ranks.curve.norm[s]) << what << ", step " << s;
      for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(p.one.traffic[k], p.ranks.traffic[k]) << what << ", count " << k;
      for (std::size_t k = 4; k < 6; ++k) EXPECT_NEAR(p.one.traffic[k], p.ranks.traffic[k], 1e-12 * p.ranks.traffic[k]) << what << ", error norm " << k;
      // 3 boundaries, 8 micro-batches, two ends; in the epilogue 1 + 2 + 3 messages of a step.
      const double coded = std::string(codec) == uncompressed ? 0 : epilogue_only ? 6 : 24;
      EXPECT_EQ(p.one.traffic[0], 2 * coded * static_cast<double>(c.steps)) << what;
      EXPECT_EQ(p.one.traffic[2], 2 * (24 - coded) * static_cast<double>(c.steps)) << what;
      // The equality would say nothing of a codec that hardly matters.
      if (coded == 0)
        dense_loss = p.one.curve.loss.back();
      else
        EXPECT_GT(std::abs(p.one.curve.loss.back() - dense_loss), 1e-5) << what;
    }
}

// The parity mode compresses nothing. Here the clip factor keeps the last bit of the norm.
TEST(LocalBoundaries, InF64TheyAgreeToRounding) {
  const Corpus corpus = Corpus::from_text(parity_text(), "local boundaries");
  const Pair p = both(small(uncompressed, false, DType::f64), corpus);
  if (world().rank() != 0) return;
  EXPECT_LE(distance(p.one.curve, p.ranks.curve), 1e-12);
  EXPECT_LE(apart(p.one, p.ranks), 1e-12);
  EXPECT_EQ(p.one.traffic, p.ranks.traffic);
  std::printf("f64: curves %.1e, weights and moments %.1e apart\n", distance(p.one.curve, p.ranks.curve), apart(p.one, p.ranks));
}

// A codec that cannot send what an unstable training makes is no defect: the run diverged, and says so as any other.
TEST(LocalBoundaries, AMessageThatCannotBeSentIsADivergence) {
  const Corpus corpus = Corpus::from_text(parity_text(), "local boundaries");
  const auto alone = world().split(world().rank(), 0);
  for (const char* codec : {"topk:fraction=0.1", "quantize:bits=4", "group:scale=f16", "powersgd:rank=2+lep", "cast"}) {
    TrainConfig c = in_one(small(codec, false));
    c.trainer.schedule = {1e30, 1e30, 0, 20};
    c.trainer.max_norm = 1e30;
    const auto trainer = ParallelTrainer::make(*alone, c, corpus);
    try {
      for (int s = 0; s < 6; ++s) trainer->step();
      ADD_FAILURE() << codec << " did not notice";
    } catch (const Diverged& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(diverged_mark)) << text;
      EXPECT_NE(text.find("step "), std::string::npos) << text;
    }
  }
}

TEST(LocalBoundaries, TwoStagesOfTwoLayersAndRulesOfStagesAndWarmUp) {
  const Corpus corpus = Corpus::from_text(parity_text(), "local boundaries");
  for (const bool of_stages : {false, true}) {
    TrainConfig c = small("powersgd:rank=2+lep", true);
    c.steps = 8;
    c.recompute = of_stages;
    c.model.layers = 8;
    c.compress[TrafficClass::pp_backward].warmup_steps = 3;
    if (of_stages) c.compress[TrafficClass::pp_backward].stages = "2-3";
    const Pair p = both(c, corpus);
    if (world().rank() != 0) continue;
    EXPECT_EQ(p.one.curve.loss, p.ranks.curve.loss) << of_stages;
    EXPECT_EQ(apart(p.one, p.ranks), 0) << of_stages;
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(p.one.traffic[k], p.ranks.traffic[k]) << of_stages << ", count " << k;
  }
}

}  // namespace
}  // namespace thinwire
