// labels: gpu, mpi
// ranks: 1,2
// devices: cuda, emulated, lazy
// slow: lazy
// timeout: 180
// Passes as graphs give the bits that queued kernels give, whatever happens between their launches; and they are launched.
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>

#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/sums.h"
#include "models/compute/recorded_passes.h"
#include "tests/models/training/device_run.h"

namespace thinwire {
namespace {

using namespace testing;
class GraphsInTraining : public DeviceTraining {};

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

/// Three micro-batches per replica.
TrainConfig tiny(bool graphs) {
  TrainConfig c = on_device(parity_config());
  c.dtype = DType::f32;
  c.model.hidden = 16, c.model.layers = 2, c.model.heads = 2, c.model.dropout = 0;
  c.mesh.dp = world().size();
  c.global_batch = 3 * c.mesh.dp;
  c.eval_sequences = c.global_batch;
  c.steps = 14;
  c.graphs = graphs;
  c.check();
  return c;
}

/// Calls of the device's entry points by this process; 0 where nobody counts them.
std::int64_t calls() {
  if (!device_name({DeviceKind::cuda, 0}).starts_with("emulated")) return 0;
  return device_function<std::int64_t()>("emulated_entry_calls")();
}

struct Course {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;
  std::vector<std::int64_t> calls;  ///< of each step
};

/// `c.steps` steps, a validation every five, `between` before each step.
Course course_of(const TrainConfig& c, const std::function<void(int step)>& between = {}) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  Course r;
  for (int s = 0; s < c.steps; ++s) {
    if (between) between(s);
    const std::int64_t before = calls();
    const StepRecord record = trainer->step();
    r.calls.push_back(calls() - before);
    r.losses.insert(r.losses.end(), {record.loss, record.gradient_norm});
    if (s % 5 == 4) r.losses.push_back(trainer->validate());
  }
  r.weights = weights_of(*trainer, c.model.vocab);
  return r;
}

void expect_equal(const Course& a, const Course& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.weights, b.weights) << what;
}

TEST_F(GraphsInTraining, GiveTheBitsOfQueuedKernelsOverManySteps) {
  for (const char* variant : {"1f1b", "gpipe", "bf16", "one micro-batch"}) {
    if (world().size() > 1 && variant != std::string("1f1b")) continue;  // one rank has shown it
    Course course[2];
    for (const bool graphs : {false, true}) {
      TrainConfig c = tiny(graphs);
      c.steps = variant != std::string("1f1b") ? 7 : world().size() > 1 ? 10 : 24;
      if (variant == std::string("gpipe")) c.schedule = variant;
      if (variant == std::string("bf16")) c.model.compute = nn::ComputeType::bf16;
      if (variant == std::string("one micro-batch")) c.global_batch = c.mesh.dp;
      course[graphs] = course_of(c);
    }
    expect_equal(course[1], course[0], variant);
    if (course[0].calls[0] == 0) continue;
    std::printf("%s, %d replicas: a step is %ld calls, %ld with graphs\n", variant, world().size(), static_cast<long>(course[0].calls.back()),
                static_cast<long>(course[1].calls.back()));
    EXPECT_LT(course[1].calls.back(), course[0].calls.back()) << variant;
    // Lazy streams are asked as often as it takes; else every later step is the same. It would not be if something were released.
    if (world().size() > 1 || std::getenv("THINWIRE_EMULATED_LAZY") != nullptr) continue;
    EXPECT_LT(2 * course[1].calls.back(), course[0].calls.back()) << variant;
    for (std::size_t step = 4; step < course[1].calls.size(); ++step) EXPECT_EQ(course[1].calls[step], course[1].calls.back()) << variant << ", step " << step;
  }
}

// Every release of device memory makes all passes start anew.
TEST_F(GraphsInTraining, SurviveMemoryThatComesAndGoes) {
  const Course reference = course_of(tiny(false));
  const Course released = course_of(tiny(true), [](int step) {
    if (step % 4 == 3) Buffer passing(1 << 16, Device{DeviceKind::cuda, 0});
  });
  expect_equal(released, reference, "a buffer that came and went");
  if (released.calls[0] > 0) {
    EXPECT_GT(released.calls[11], released.calls[10]) << "a release went unnoticed";
  }
  if (world().size() > 1) return;
  // Other trainers, whose memory comes to lie where other memory was.
  std::unique_ptr<ParallelTrainer> other;
  const Course beside = course_of(tiny(true), [&](int step) {
    TrainConfig c = tiny(true);
    c.model.hidden = step < 7 ? 32 : 8;
    if (step % 5 == 2) other = ParallelTrainer::make(world(), c, corpus());
    if (other) other->step();
    if (step % 5 == 4) other.reset();
  });
  expect_equal(beside, reference, "another trainer");
}

TEST_F(GraphsInTraining, AResumedRunIsBitEqualToAnUninterruptedOne) {
  const Outcome reference = straight(tiny(false), corpus(), 12);
  EXPECT_EQ(difference(reference, straight(tiny(true), corpus(), 12)), "");
  EXPECT_EQ(difference(reference, interrupted(tiny(true), corpus(), 6, 6, scratch_file(), tiny(true))), "");
  EXPECT_EQ(difference(reference, interrupted(tiny(false), corpus(), 6, 6, scratch_file(), tiny(true))), "");
}

// Into a trainer whose graphs are under way: weights change, addresses do not.
TEST_F(GraphsInTraining, ACheckpointIsLoadedUnderThem) {
  const std::string path = scratch_file();
  std::vector<double> losses[2];
  for (const bool graphs : {false, true}) {
    const TrainConfig c = tiny(graphs);
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    for (int s = 0; s < 4; ++s) trainer->step();
    save_checkpoint(world(), *trainer, c, path);
    for (int s = 0; s < 4; ++s) trainer->step();
    load_checkpoint(world(), *trainer, c, path);
    EXPECT_EQ(trainer->steps_taken(), 4);
    for (int s = 0; s < 6; ++s) losses[graphs].push_back(trainer->step().loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
  if (world().rank() == 0) std::filesystem::remove(path);
}

TEST_F(GraphsInTraining, AskedForWhereTheyCannotBeAreRefusedWithTheReason) {
  const auto refusal = [](const std::function<void(TrainConfig&)>& change) -> std::string {
    TrainConfig c = tiny(true);
    c.mesh.dp = 1, c.global_batch = 2;
    change(c);
    try {
      c.check();
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](TrainConfig&) {}), "");
  EXPECT_NE(refusal([](TrainConfig& c) { c.mesh.tp = 2; }).find("--tp 1"), std::string::npos);
  EXPECT_NE(refusal([](TrainConfig& c) { c.model.dropout = 0.1; }).find("--dropout 0"), std::string::npos);
  EXPECT_NE(refusal([](TrainConfig& c) { c.recompute = true; }).find("--recompute none"), std::string::npos);
  EXPECT_NE(refusal([](TrainConfig& c) { c.schedule = "terapipe", c.token_slices = "8,5,3"; }).find("--token-slices 1"), std::string::npos);
  EXPECT_NE(refusal([](TrainConfig& c) { c.device = DeviceKind::host; }).find("--device cuda"), std::string::npos);
}

/// A model whose passes go through graphs, beside one whose passes do not.
class GraphsOfOneModel : public DeviceTraining {
 protected:
  struct Side {
    explicit Side(const GptConfig& config) : model(config), loss({1}, DType::f64) {
      loss.fill_zero();
      model.zero_gradients();
    }
    void add_loss(double scale) { nn::add_total<double, double>(1, data_of<double>(saved.head.loss), scale, 1.0, data_of<double>(loss)); }
    Gpt<float> model;
    Gpt<float>::Activations saved;
    Tensor gradient, loss;
  };
  void SetUp() override {
    DeviceTraining::SetUp();
    if (IsSkipped()) return;
    stream.emplace(Device{DeviceKind::cuda, 0});
    here.emplace(Placement{stream->get().device, stream->get()});
    clock.measure_devices();
    queued.emplace(tiny(true).model), launched.emplace(tiny(true).model);
  }
  /// Both take a micro-batch; true when losses and gradients are equal by now.
  bool pass(std::int64_t batch, std::int64_t seq, int number, double scale) {
    const BatchSampler sampler(corpus().training(), 3, "graphs");
    const Batch tokens = sampler.batch(static_cast<std::uint64_t>(number), 0, batch, seq);
    const PassContext context{batch, seq, true, static_cast<std::uint64_t>(number)};
    queued->model.run_forward(context, tokens, scale, queued->saved);
    queued->add_loss(scale);
    queued->model.backward(tokens, queued->saved, queued->gradient);

    Side& side = *launched;
    side.model.place(context, tokens, side.saved);
    // Of every other shape and scale passes of their own.
    auto& mine = graphs[{batch, seq, scale}];
    if (!mine) mine = std::make_unique<RecordedPasses>(true, clock);
    side.gradient.reshape({batch * seq, side.model.config().hidden});
    mine->run({"forward", 0, &side.saved}, 0, [&] {
      for (std::size_t unit = 0; unit < side.model.units().size(); ++unit) side.model.forward_unit(unit, scale, side.saved);
      side.add_loss(scale);
    });
    mine->run({"backward", 0, &side.saved, side.gradient.view().data()}, 0, [&] { side.model.backward(tokens, side.saved, side.gradient); });
    clock.settle();
    bool equal = read_number(side.loss) == read_number(queued->loss);
    for (std::size_t i = 0; i < side.model.parameters().size(); ++i)
      equal = equal && elements_of(side.model.parameters()[i]->gradient.view()) == elements_of(queued->model.parameters()[i]->gradient.view());
    return equal;
  }
  std::optional<OwnedStream> stream;
  std::optional<PlacementScope> here;
  ComputeClock clock;
  std::optional<Side> queued, launched;
  std::map<std::tuple<std::int64_t, std::int64_t, double>, std::unique_ptr<RecordedPasses>> graphs;
};

TEST_F(GraphsOfOneModel, AWorkspaceThatGrowsIsNotMissed) {
  int number = 0;
  for (; number < 5; ++number) ASSERT_TRUE(pass(1, 16, number, 0.5)) << number;
  RecordedPasses& passes = *graphs.begin()->second;
  const std::int64_t before = passes.launches();
  EXPECT_GE(before, 5);
  const std::uint64_t releases = device_releases();
  nn::device::workspace(std::size_t{48} << 20);
  EXPECT_GT(device_releases(), releases);
  for (; number < 10; ++number) ASSERT_TRUE(pass(1, 16, number, 0.5)) << number;
  EXPECT_EQ(passes.launches(), before + 8) << "five times two passes, of which the first two queue their kernels";
}

// Shapes and scales that alternate: longer lists of tokens and larger activations in the same tensors.
TEST_F(GraphsOfOneModel, TensorsThatGrowUnderThemAreNotMissed) {
  const struct {
    std::int64_t batch, seq;
    double scale;
  } kinds[] = {{1, 7, 0.5}, {1, 7, 0.25}, {2, 13, 0.5}, {3, 16, 1.0}, {1, 16, 0.5}};
  int number = 0;
  for (const int most : {2, 3, 5})  // what was launched before must not be any more
    for (int times = 0; times < 12; ++times, ++number) {
      const auto& kind = kinds[(number * 7 + number / 3) % most];
      ASSERT_TRUE(pass(kind.batch, kind.seq, number, kind.scale)) << number;
    }
  std::int64_t launches = 0;
  for (const auto& [kind, passes] : graphs) launches += passes->launches();
  EXPECT_GE(launches, 30);
}

}  // namespace
}  // namespace thinwire
