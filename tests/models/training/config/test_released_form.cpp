// labels: mpi
// ranks: 4
// timeout: 120
// Optimus-CC on ranks: the released form's defects as they act on a training step
// (docs/papers/optimus_cc.md, "Defects of the released code"), and "Worked examples" 8 and 9 there on real channels.
#include "kernels/codec/state.h"
#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "released");
  return text;
}

/// Two stages, micro-batches of eight sequences, nothing clipped.
TrainConfig two_stages(int tp, int dp) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.mesh = {tp, 2, dp, "tp-pp-dp"};
  c.micro_batch = 8;
  c.global_batch = 16 * dp;
  c.model.dropout = 0;
  c.trainer.max_norm = 1e30;
  c.embedding_sync = "fused";
  return c;
}

/// The table's gradient of the first step, times 1 - beta1, on the ranks that hold the table; empty on others.
std::vector<float> table_moment(const TrainConfig& config) {
  const auto trainer = ParallelTrainer::make(world(), config, corpus());
  trainer->step();
  for (const StateSlot& slot : trainer->state_slots())
    if (slot.name == "first_moment" && slot.layout.name() == "embedding.token") return {slot.value.as<float>().begin(), slot.value.as<float>().end()};
  return {};
}

TrainConfig with_selective_stages(TrainConfig c, const std::string& stages, Form form) {
  c.form = form;
  c.compress[TrafficClass::dp_gradient] = {.codec = "powersgd:rank=2+ef", .stages = stages};
  return c;
}

// Defect 2: a stage whose gradients are compressed contributes nothing to the table's gradient.
TEST(ReleasedForm, WithSelectiveStagesLosesTheirShareOfTheTablesGradient) {
  const TrainConfig c = two_stages(1, 2);
  const auto whole = table_moment(with_selective_stages(c, "0", Form::fair));
  const auto without_first = table_moment(with_selective_stages(c, "0", Form::released)), without_last = table_moment(with_selective_stages(c, "1", Form::released));
  const auto without_both = table_moment(with_selective_stages(c, "all", Form::released));
  ASSERT_FALSE(whole.empty());
  std::vector<float> sum(whole.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = without_first[i] + without_last[i];
  EXPECT_LT(relative_l2(sum, whole), 1e-5);
  EXPECT_GT(relative_l2(without_first, whole), 1e-2);
  EXPECT_GT(relative_l2(without_last, whole), 1e-2);
  EXPECT_EQ(without_both, std::vector<float>(whole.size(), 0.0f));
  TrainConfig two_step = c;
  two_step.embedding_sync = "two_step";
  EXPECT_LT(relative_l2(table_moment(with_selective_stages(two_step, "0", Form::released)), whole), 1e-5) << "only the fused form loses it";
}

// Defect 1: one group of all tensor ranks sums rows that have nothing to do with each other.
TEST(ReleasedForm, FusedGroupMixesTheRowsOfTensorRanks) {
  TrainConfig c = two_stages(2, 1);
  const auto fair = table_moment(c);
  c.form = Form::released;
  const auto mixed = table_moment(c);
  EXPECT_GT(relative_l2(mixed, fair), 0.1);
  std::vector<float> sum(fair.size());
  const auto mesh = ParallelTrainer::make(world(), c, corpus());
  mesh->mesh().tp().all_reduce(fair.data(), sum.data(), static_cast<std::int64_t>(sum.size()), DType::f32, ReduceOp::sum)->wait();
  EXPECT_LT(relative_l2(mixed, sum), 1e-5);
}

double coded_payload(const StepRecord& record, TrafficClass traffic) {
  double mine = 0, sum = 0;
  for (const TrafficRecord& r : record.traffic)
    if (r.traffic == traffic && r.codec != "none") mine += static_cast<double>(r.total.payload_bytes);
  world().all_reduce(&mine, &sum, 1, DType::f64, ReduceOp::sum)->wait();
  return sum;
}

// Defect 3: n = seq * (micro_batch / 8) rows at any number of tensor ranks.
TEST(ReleasedForm, SeesABoundaryGradientAsRowsOfEightTokens) {
  for (const bool scatters : {false, true}) {
    TrainConfig c = two_stages(2, 1);
    c.scatter_gather = scatters;
    c.form = Form::released;
    c.embedding_sync = "two_step";
    c.compress[TrafficClass::pp_backward] = {.codec = "powersgd:rank=3+lep"};
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    const std::int64_t n = c.seq, m = 8 * c.model.hidden / (scatters ? 2 : 1), senders = 2;
    EXPECT_EQ(coded_payload(trainer->step(), TrafficClass::pp_backward), static_cast<double>(4 * 3 * (n + m) * senders * c.micro_batches()));
  }
}

TEST(ReleasedForm, AtFullRankDeliversTheGradientInItsPlace) {
  for (const bool scatters : {false, true}) {
    TrainConfig c = two_stages(2, 1);
    c.scatter_gather = scatters;
    c.embedding_sync = "two_step";
    const auto losses = [&](const TrainConfig& config) {
      const auto trainer = ParallelTrainer::make(world(), config, corpus());
      std::vector<double> curve;
      for (int s = 0; s < 6; ++s) curve.push_back(trainer->step().loss);
      return curve;
    };
    const auto dense = losses(c);
    c.form = Form::released;
    c.compress[TrafficClass::pp_backward].codec = "powersgd:rank=" + std::to_string(c.seq);  // as many columns as rows
    const auto coded = losses(c);
    EXPECT_NE(coded, dense) << "was it used?";
    for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(coded[i], dense[i], 2e-4 * dense[i]) << "step " << i;
    c.compress[TrafficClass::pp_backward].codec = "powersgd:rank=1";
    EXPECT_GT(std::abs(losses(c).back() - dense.back()), 2e-4 * dense.back()) << "the bound above would not see a wrong gradient";
  }
}

// Vector 9.
TEST(LazyError, SendsNoByteMore) {
  TrainConfig c = two_stages(1, 2);
  std::vector<double> bytes;
  for (const char* codec : {"powersgd:rank=2", "powersgd:rank=2+lep"}) {
    c.compress[TrafficClass::pp_backward] = {.codec = codec};
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    trainer->step();
    bytes.push_back(coded_payload(trainer->step(), TrafficClass::pp_backward));
  }
  const double n = static_cast<double>(c.seq * c.micro_batch), m = static_cast<double>(c.model.hidden);
  EXPECT_EQ(bytes[0], 4 * 2 * (n + m) * static_cast<double>(c.micro_batches()) * c.mesh.dp);
  EXPECT_EQ(bytes[1], bytes[0]);
}

/// The residual that error feedback keeps: what it would add to zeros.
std::vector<float> residual_of(Channel& channel, const Shape& shape, const MessageKey& key) {
  std::vector<float> e(static_cast<std::size_t>(shape.elements()), 0.0f);
  channel.codec().wrappers[0]->before_encode(TensorView(e.data(), shape), key);
  return e;
}

// Vector 8.
TEST(DataParallelPowerSgd, KeepsEveryRankAlikeAndConservesTheSumOfTheReplicas) {
  const Shape shape{29, 13};
  Channel channel(world(), {TrafficClass::dp_gradient, "powersgd:rank=3+ef", Form::fair, Protocol::automatic, DType::f32, DenseAlgorithm::ring, true});
  const int ranks = world().size();
  for (int step = 0; step < 4; ++step) {
    MessageKey key;
    key.tensor = hash_name("weight");
    key.step = step;
    auto x = normal_input(shape.elements(), ("gradient" + std::to_string(step)).c_str(), world().rank());
    const auto before = step == 0 ? std::vector<float>(x.size(), 0.0f) : residual_of(channel, shape, key);
    std::vector<float> out(x.size());
    channel.all_reduce(ConstTensorView(x.data(), shape), TensorView(out.data(), shape), key).wait();
    EXPECT_TRUE(equal_on_all_ranks(out.data(), static_cast<std::int64_t>(out.size() * sizeof(float))));
    StateWriter writer;
    channel.codec().codec->as<State>()->save_state(writer);
    const auto factors = writer.finish();
    EXPECT_TRUE(equal_on_all_ranks(factors.data(), static_cast<std::int64_t>(factors.size()))) << "Q of step " << step;
    const auto after = residual_of(channel, shape, key);
    // M_i = x_i + e_before; sum e_after = sum M_i - D out, element by element.
    std::vector<double> mine(2 * x.size()), sum(mine.size());
    for (std::size_t i = 0; i < x.size(); ++i) mine[i] = after[i], mine[x.size() + i] = static_cast<double>(x[i]) + before[i];
    world().all_reduce(mine.data(), sum.data(), static_cast<std::int64_t>(sum.size()), DType::f64, ReduceOp::sum)->wait();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sum[i], sum[x.size() + i] - ranks * static_cast<double>(out[i]), 2e-5) << i;
  }
}

TEST(DataParallelPowerSgd, OfEqualReplicasIsTheSingleRanksResult) {
  const Shape shape{29, 13};
  const ChannelOptions options{TrafficClass::dp_gradient, "powersgd:rank=3+ef", Form::fair, Protocol::automatic, DType::f32, DenseAlgorithm::ring, true};
  const auto alone = world().split(world().rank(), 0);
  Channel all(world(), options), one(*alone, options);
  for (int step = 0; step < 4; ++step) {
    MessageKey key;
    key.tensor = hash_name("weight");
    key.step = step;
    auto x = normal_input(shape.elements(), ("equal" + std::to_string(step)).c_str(), 0);
    std::vector<float> mean(x.size()), single(x.size());
    all.all_reduce(ConstTensorView(x.data(), shape), TensorView(mean.data(), shape), key).wait();
    one.all_reduce(ConstTensorView(x.data(), shape), TensorView(single.data(), shape), key).wait();
    EXPECT_LT(relative_l2(mean, single), 1e-5) << step;
  }
}

}  // namespace
}  // namespace thinwire
