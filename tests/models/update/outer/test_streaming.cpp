// labels: mpi
// ranks: 4
// timeout: 300
// Streaming DiLoCo: fragment by fragment it is what it is by hand, on splits too; one fragment that does not overlap is DiLoCo; each element travels once per round; a run goes on bit-equal while a
// fragment is under way.
#include "tests/models/training/messages.h"
#include "tests/models/training/resume_run.h"
#include "tests/models/update/outer/by_hand.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "streaming");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer, DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  mesh.dp_replicas = mesh.dp;
  c.mesh = mesh;
  c.dtype = dtype;
  c.model.layers = 4, c.model.hidden = 16;
  c.steps = 9;
  c.trainer.schedule = {3e-3, 3e-4, 2, 9};
  c.optimizer = optimizer;
  return c;
}

const char* const streaming = "adamw+streaming_diloco:inner_steps=4,fragments=2,overlap=1,mixing=0.25,rate=0.6,momentum=0.8";
const OuterByHand streaming_by_hand{.inner_steps = 4, .rate = 0.6, .momentum = 0.8, .nesterov = true, .fragments = 2, .overlap = 1, .mixing = 0.25};

TEST(StreamingDiLoCo, IsWhatItIsByHandOnEverySplit) {
  const TrainConfig four = config_of({1, 1, 4}, streaming), stages = config_of({1, 2, 2}, streaming), tensor = config_of({2, 1, 2}, streaming);
  for (const TrainConfig* c : {&four, &stages, &tensor}) c->check();
  EXPECT_LT(distance(parallel_curve(world(), four, corpus()), by_hand(four, streaming_by_hand, corpus())), 1e-10);
  const RunCurve two = by_hand(stages, streaming_by_hand, corpus());
  EXPECT_LT(distance(parallel_curve(world(), stages, corpus()), two), 1e-10);
  EXPECT_LT(distance(parallel_curve(world(), tensor, corpus()), two), 1e-10);
}

TEST(StreamingDiLoCo, OneFragmentThatDoesNotOverlapIsDiLoCo) {
  const RunCurve whole = parallel_curve(world(), config_of({1, 1, 4}, "adamw+diloco:inner_steps=3"), corpus());
  const RunCurve same = parallel_curve(world(), config_of({1, 1, 4}, "adamw+streaming_diloco:inner_steps=3,fragments=1,overlap=0,mixing=0"), corpus());
  EXPECT_EQ(same.loss, whole.loss);
  EXPECT_EQ(same.validation, whole.validation);
}

TEST(StreamingDiLoCo, EachElementTravelsOnceInARoundAndAFragmentAtATime) {
  for (const char* layout : {"blocks", "strided"}) {
    TrainConfig c = config_of({1, 1, 4}, std::string("adamw+streaming_diloco:inner_steps=4,fragments=4,overlap=0,layout=") + layout, DType::f32);
    c.comm_dtype = DType::f32;
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    std::int64_t elements = 0, largest = 0, all = 0;
    for (const StateSlot& slot : trainer->state_slots())
      if (slot.name == "weights") elements += slot.value.elements();
    for (int step = 0; step < 4; ++step) {
      std::int64_t bytes = 0;
      const StepRecord record = trainer->step();
      for (const TrafficRecord& r : record.traffic)
        if (r.traffic == TrafficClass::outer_gradient) bytes += r.total.dense_bytes;
      EXPECT_GT(bytes, 0) << step;
      EXPECT_EQ(messages_of(record, TrafficClass::outer_gradient), (Messages{1, 0})) << step;
      largest = std::max(largest, bytes), all += bytes;
    }
    EXPECT_EQ(all, 4 * elements) << layout;
    EXPECT_LT(largest, 4 * elements / 2) << layout;
  }
}

TEST(StreamingDiLoCo, GoesOnBitEqualWhileAFragmentIsUnderWay) {
  const std::string path = scratch_file();
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 2, 2}}) {
    TrainConfig c = config_of(mesh, streaming, DType::f32);
    CompressRule& rule = c.compress[TrafficClass::outer_gradient];
    rule.codec = "group:bits=4+ef";
    // Fragment 0 is under way after step 1, 1 after step 3, none after step 2. Where a rule leaves some
    // matrices out, they lie between others; the first exchange is before it acts.
    for (const char* layers : {"all", "1-2"})
      for (const int before : {1, 2, 3}) {
        rule.layers = layers, rule.warmup_steps = rule.layers == "all" ? 0 : 1;
        EXPECT_EQ(difference(interrupted(c, corpus(), before, 4, path, c), straight(c, corpus(), before + 4)),
                  "")
            << describe_mesh(c.mesh) << layers << before;
      }
  }
}

TEST(StreamingDiLoCo, RefusesFragmentsThatDoNotTakeTurns) {
  const auto refused = [](const char* options, const char* part) {
    const TrainConfig c = config_of({1, 1, 4}, std::string("adamw+streaming_diloco:") + options);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("inner_steps=10,fragments=3", "choose inner_steps=12");
  refused("inner_steps=8,fragments=4,overlap=2", "choose a smaller overlap");
  refused("inner_steps=16,fragments=8", "no layer for each of 8 fragments");
}

}  // namespace
}  // namespace thinwire
