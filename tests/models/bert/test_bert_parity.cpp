// labels: mpi, parity
// ranks: 8
// timeout: 600
// BERT under every kind of split: tasks, meshes, schedules, micro-batches and switches, two by two, follow one rank in f64, although micro-batches have
// unequal numbers of labels, and some none. What it cannot is refused; what its ranks send is compressed like a GPT's.
#include "tests/models/bert/bert_cases.h"
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

TrainConfig config_of(const BertCase& bert, TrainConfig c = parity_config()) {
  c.model_kind = std::string("bert:") + bert.options;
  c.model.vocab = masked_text_vocabulary, c.model.hidden = 16;
  c.steps = 2;
  c.trainer.schedule = {3e-3, 3e-4, 1, 3};
  return c;
}

/// Losses and norms of the steps, then of the evaluation its loss, and its metrics among the losses.
RunCurve curve_of(Communicator& group, const TrainConfig& c, BertTask task) {
  const auto trainer = ParallelTrainer::make(group, c, bert_samples(task));
  RunCurve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    curve.loss.push_back(record.loss);
    curve.norm.push_back(record.gradient_norm);
  }
  const Evaluation evaluation = trainer->evaluate();
  curve.validation = evaluation.loss;
  for (const Evaluation::Metric& m : evaluation.metrics) curve.loss.push_back(1 + m.value), curve.norm.push_back(1);
  return curve;
}

/// A GPT's case `c`, of `bert`.
ParityCase case_of(const BertCase& bert, ParityCase c) {
  c.config = config_of(bert, c.config);
  c.config.model.layers = layers_enough_for(c.config);
  c.choices.push_back("task " + std::to_string(static_cast<int>(bert.task)));
  c.choices.push_back(std::string(bert.options).find("norm=pre") == std::string::npos ? "post" : "pre");
  c.name += std::string(", ") + bert.options;
  return c;
}

/// A pairwise cover: number of the model and index of the split, in turn.
std::vector<double> covering_cases() {
  const auto splits = all_parity_cases();
  std::vector<std::vector<std::string>> choices;
  for (const BertCase& bert : bert_cases)
    for (const auto& [index, split] : splits) choices.push_back(case_of(bert, split).choices);
  std::vector<double> found;
  for (const std::size_t i : pairwise_cover(choices))
    for (const std::size_t number : {i / splits.size(), static_cast<std::size_t>(splits[i % splits.size()].first)}) found.push_back(static_cast<double>(number));
  return found;
}

TEST(BertParity, EveryPairOfChoicesFollowsOneRankInDoublePrecision) {
  std::vector<ParityCase> cases;
  std::vector<const BertCase*> berts;
  const std::vector<double> numbers = made_once(covering_cases);
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    berts.push_back(&bert_cases[static_cast<std::size_t>(numbers[i])]);
    cases.push_back(case_of(*berts.back(), parity_case(static_cast<std::int64_t>(numbers[i + 1])).value()));
  }
  const auto alone = world().split(world().rank(), 0);
  std::map<std::pair<std::string, std::int64_t>, std::pair<const BertCase*, RunCurve>> references;  // by model and layers
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const BertCase& bert = *berts[i];
    TrainConfig whole = config_of(bert);
    whole.micro_batch = parity_global_batch;
    whole.model.layers = cases[i].config.model.layers;
    const auto curve = [&] { return curve_of(*alone, whole, bert.task); };
    const std::pair key(whole.model_kind, whole.model.layers);
    if (references.contains(key)) continue;
    RunCurve reference = curve_made_once(curve);
    whole.steps = 1;
    ASSERT_GT(std::abs(reference.validation - curve_made_once(curve).validation), 1e-4) << bert.options << ": a reference that does not learn proves little";
    references.emplace(key, std::pair(&bert, std::move(reference)));
  }
  const std::vector<double> d = distances(cases, [&](Communicator& group, const ParityCase& of) {
    const auto& [bert, reference] = references.at({of.config.model_kind, of.config.model.layers});
    return distance(curve_of(group, of.config, bert->task), reference);
  });
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_LT(d[i], 1e-10) << cases[i].name;
    worst = std::max(worst, d[i]);
  }
  if (world().rank() == 0) std::printf("%zu cases, largest relative distance %.2e\n", cases.size(), worst);
}

TEST(BertParity, AnotherModelIsSeen) {
  const auto alone = world().split(world().rank(), 0);
  const auto curve = [&](const TrainConfig& c) { return curve_made_once([&] { return curve_of(*alone, c, bert_cases[2].task); }); };
  const RunCurve reference = curve(config_of(bert_cases[2]));
  TrainConfig other = config_of(bert_cases[2]);
  other.model.seed += 1;
  EXPECT_GT(distance(curve(other), reference), 1e-6);
  other = config_of(bert_cases[2]);
  other.model_kind += ",epsilon=1e-5";
  EXPECT_GT(distance(curve(other), reference), 1e-10);
}

TEST(BertParity, WhatItsRanksSendIsCompressed) {
  TrainConfig c = config_of(bert_cases[2]);
  c.dtype = c.comm_dtype = DType::f32;
  c.mesh = {2, 2, 2};
  c.micro_batch = 2;
  const double dense = curve_of(world(), c, bert_cases[2].task).loss[static_cast<std::size_t>(c.steps) - 1];
  for (const TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::pp_forward, TrafficClass::pp_backward, TrafficClass::dp_gradient}) {
    TrainConfig coded = c;
    coded.compress[traffic].codec = "quantize:bits=8";
    const auto trainer = ParallelTrainer::make(world(), coded, bert_samples(bert_cases[2].task));
    double sent = 0, loss = 0;
    for (std::int64_t s = 0; s < c.steps; ++s) {
      const StepRecord record = trainer->step();
      loss = record.loss;
      for (const TrafficRecord& r : record.traffic)
        if (r.traffic == traffic && r.codec != "none") sent += static_cast<double>(r.total.payload_bytes);
    }
    double of_all = 0;
    world().all_reduce(&sent, &of_all, 1, DType::f64, ReduceOp::sum)->wait();
    EXPECT_GT(of_all, 0) << name_of(traffic);
    EXPECT_NE(loss, dense) << name_of(traffic);
    EXPECT_TRUE(std::isfinite(loss)) << name_of(traffic);
  }
}

TEST(BertParity, IsRefusedWhatItCannot) {
  const auto refusal = [](TrainConfig c) {
    try {
      (void)ParallelTrainer::make(world(), c, bert_samples(BertTask::masked));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  TrainConfig c = config_of(bert_cases[0]);
  c.mesh = {1, 8, 1};
  c.schedule = "terapipe", c.token_slices = "4";
  EXPECT_NE(refusal(c).find("cannot see a part of a sequence alone"), std::string::npos) << "tokens see those behind them";
  c = config_of(bert_cases[0]);
  c.mesh = {4, 2, 1};
  c.tensor_parallel = "2d", c.micro_batch = 4;
  EXPECT_NE(refusal(c).find("--tensor-parallel 1d"), std::string::npos);
}

}  // namespace
}  // namespace thinwire
