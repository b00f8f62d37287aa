// labels: unit
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/training/mfu.h"
#include "bench/harness/options.h"
#include "bench/training/timeline.h"
#include "bench/training/train_prediction.h"
#include "bench/training/train_program.h"
#include "bench/training/train_report.h"
#include "bench/training/train_tables.h"
#include "models/stage/model_kind.h"
#include "models/store/parameter_store.h"
#include "models/cost_model/memory_limit.h"
#include "models/training/config/train_options.h"
#include "models/training/step_schedule.h"
#include "support/temporary_folder.h"

namespace thinwire::bench {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

std::optional<CommandLine> command_line(std::vector<std::string> words) {
  words.insert(words.begin(), "train_gpt");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const BenchProgram program = train_program();
  std::optional<CommandLine> line = parse_command_line(static_cast<int>(argv.size()), argv.data(), program);
  if (line && !program.prepare(*line)) return std::nullopt;
  return line;
}

std::string usage_error(std::vector<std::string> words) {
  return message_of<UsageError>([&] { (void)command_line(std::move(words)); });
}

TEST(TrainProgram, EveryKeyOfTheConfigurationIsAParameterOfACell) {
  std::set<std::string> names;
  for (const BenchOption& option : all_options(train_program())) names.insert(option.name);
  for (const TrainOption& option : train_options()) EXPECT_TRUE(names.contains(option.flag)) << option.flag;
  EXPECT_TRUE(names.contains("plan"));
  EXPECT_FALSE(names.contains("repetitions"));
}

TEST(TrainProgram, TheDefaultsOfItsParametersAreTheDefaultConfiguration) {
  CellParameters parameters;
  for (const BenchOption& option : all_options(train_program()))
    parameters.values[option.name] = option.default_value;
  EXPECT_EQ(print_config(train_config_of(parameters)), print_config(make_train_config({})));
}

TEST(TrainProgram, AFileGivesTheCellsParametersAndFlagsOverrideThem) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("run.toml", "[model]\nhidden = 64\nlayers = 2\n[parallel]\nsequence_parallel = true\n");
  const auto line = command_line({"--config", file, "--layers", "3", "--heads=4"});
  ASSERT_TRUE(line);
  const std::map<std::string, std::string> expected = {
      {"hidden", "64"}, {"layers", "3"}, {"heads", "4"}, {"sequence-parallel", "true"}};
  EXPECT_EQ(line->values, expected);
}

TEST(TrainProgram, SwitchesMayStandAloneOrHaveAValue) {
  for (const auto& [words, value] :
       {std::pair<std::vector<std::string>, std::string>{{"--sequence-parallel", "--tp", "1"}, "true"},
        {{"--tp", "1", "--sequence-parallel"}, "true"},
        {{"--sequence-parallel", "false", "--tp", "1"}, "false"},
        {{"--sequence-parallel=on", "--tp", "1"}, "on"}}) {
    const auto line = command_line(words);
    ASSERT_TRUE(line);
    EXPECT_EQ(line->values.at("sequence-parallel"), value);
    EXPECT_EQ(line->values.at("tp"), "1");
  }
}

TEST(TrainProgram, MistakesAreFoundBeforeAnythingStarts) {
  EXPECT_NE(usage_error({"--hiden", "3"}).find("did you mean --hidden"), std::string::npos);
  EXPECT_NE(usage_error({"--compress.tp_foward", "topk"}).find("--compress.tp_forward"), std::string::npos);
  EXPECT_NE(usage_error({"--layers", "6", "--pp", "4"}).find("6 layers"), std::string::npos);
  EXPECT_NE(usage_error({"--show-mseh"}).find("--show-mesh"), std::string::npos);
  EXPECT_NE(usage_error({"--cells", "x.json", "--trace", "t.json"}).find("--trace"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([] {
              require_ranks({2, 2, 2, "tp-pp-dp"}, 4);
            }).find("mpirun -n 8"),
            std::string::npos);
}

TEST(TrainProgram, ItsAnswersNeedNoRanks) {
  for (const auto& [flag, says] :
       {std::pair<std::string, std::string>{"--show-mesh", "pp: [0 2] [1 3] [4 6] [5 7]"},
        {"--print-config", "tp = 2"},
        {"--show-memory", "optimizer"}}) {
    ::testing::internal::CaptureStdout();
    EXPECT_FALSE(command_line({"--tp", "2", "--pp", "2", "--dp", "2", flag}));
    EXPECT_NE(::testing::internal::GetCapturedStdout().find(says), std::string::npos) << flag;
  }
}

TEST(TrainProgram, MemoryShrinksWithEveryAxisOfTheMeshThatSplitsIt) {
  const auto total = [](const TrainValues& values) { return estimate_memory(make_train_config(values), {}); };
  const MemoryEstimate whole = total({}), tensor = total({{"tp", "2"}}), stages = total({{"pp", "2"}}),
                       sharded = total({{"dp", "8"}, {"zero-stage", "1"}});
  EXPECT_LT(tensor.weights, whole.weights);
  EXPECT_LT(stages.weights, whole.weights);
  EXPECT_EQ(sharded.weights, whole.weights);
  EXPECT_LT(sharded.optimizer, whole.optimizer);
  EXPECT_LT(total({{"recompute", "full"}}).activations, whole.activations);
}

TEST(TrainProgram, ThePlanIsNamedAfterWhatIsCompressed) {
  const auto plan = [](std::map<std::string, std::string> values) {
    CellParameters parameters;
    parameters.values = std::move(values);
    return plan_of(parameters, train_config_of(parameters));
  };
  EXPECT_EQ(plan({}), "dense");
  EXPECT_EQ(plan({{"compress.dp_gradient", "topk"},
                  {"compress.tp_forward", "topk"},
                  {"compress.embedding", "none"}}),
            "tp_forward+dp_gradient");
  EXPECT_EQ(plan({{"compress.dp_gradient", "topk"}, {"plan", "all"}}), "all");
}

/// Two ranks, three steps; rank 1 works twice as long as rank 0.
TrainRun example() {
  TrainRun run;
  run.config =
      make_train_config({{"pp", "2"}, {"global-batch", "4"}, {"compress.pp_forward", "quantize:bits=4"}});
  run.config.compute = ComputeMode::replay;
  run.plan = "pp_forward";
  run.link = "netns:1gbit";
  run.oversubscription = 4;
  for (int rank = 0; rank < 2; ++rank) {
    run.ranks.emplace_back();
    for (int step = 0; step < 3; ++step) {
      StepRecord s;
      s.step = step;
      s.loss = step == 2 ? std::nan("") : 5.0 - step;
      s.gradient_norm = 1.5;
      s.norm_scope = NormScope::replica;
      s.learning_rate = 1.0 / 3;
      s.seconds = 1e-3 * (10 + step + rank);
      s.compute_us = 2000 * (1 + rank);
      s.tokens = 512;
      TrafficRecord coded;
      coded.traffic = TrafficClass::pp_forward;
      coded.codec = "quantize:bits=4";
      coded.operations = 4;
      coded.total.encode_us = 100, coded.total.transfer_us = 3000, coded.total.decode_us = 50,
      coded.total.total_us = 3150;
      coded.total.dense_bytes = 8000, coded.total.payload_bytes = 2000,
      coded.total.link_bytes = rank == 0 ? 2000 : 0, coded.total.received_bytes = rank == 0 ? 0 : 2000;
      coded.error_squared = 0.25, coded.reference_squared = 4;
      TrafficRecord dense;
      dense.codec = "none";
      dense.operations = 1;
      dense.total.link_bytes = 10;
      dense.total.transfer_us = 100000;  // overlaps with everything
      s.traffic = {coded, dense};
      run.ranks.back().push_back(s);
    }
  }
  return run;
}

TEST(TrainTables, StepRecordsSurviveTheWayToRankZero) {
  const TrainRun run = example();
  const std::string text = to_text(run.ranks[1]);
  const std::vector<StepRecord> back = steps_from_text(text);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(to_text(back), text);
  EXPECT_EQ(back[0].learning_rate, 1.0 / 3);
  EXPECT_EQ(back[0].norm_scope, NormScope::replica);
  EXPECT_TRUE(std::isnan(back[2].loss));
  EXPECT_EQ(back[1].traffic[0].codec, "quantize:bits=4");
  EXPECT_EQ(back[1].traffic[0].total.received_bytes, 2000);
  EXPECT_THROW((void)steps_from_text(text.substr(0, text.size() / 2)), CorruptData);
  EXPECT_TRUE(steps_from_text("").empty());
}

TEST(TrainTables, ThePartsOfAStepAddUpToIt) {
  const TrainRun run = example();
  for (const auto& steps : run.ranks)
    for (const StepRecord& step : steps) {
      const StepSplit split = split_of(step);
      EXPECT_NEAR(split.compute + split.encode + split.transfer + split.decode + split.wait,
                  step.seconds * 1e6, 1e-6);
      EXPECT_GE(split.wait, 0);
    }
}

/// A store that nobody trains with: what is said of it is all that is asked.
void register_gathering_store() {
  static const bool registered = [] {
    StoreInfo info{.zero_stage = 93, .summary = "a test's", .gathers = true, .keep = KeepGathered::layer, .shards_gradients = true, .lends = true};
    info.classes = {TrafficClass::param_all_gather};
    info.make_f32 = [](const StoreContext<float>&) { return std::unique_ptr<ParameterStore<float>>(); };
    info.make_f64 = [](const StoreContext<double>&) { return std::unique_ptr<ParameterStore<double>>(); };
    info.footprint = [](std::int64_t split, std::int64_t whole, int ranks) {
      return StoreFootprint{.weights = split / ranks + whole, .gradients = split + whole, .owned = split / ranks + whole};
    };
    return register_store(std::move(info));
  }();
  ASSERT_TRUE(registered);
}

// Two stages, two replicas, four micro-batches; a link on which a kilobyte takes a microsecond and a message three.
TEST(TrainPrediction, TakesComputeFromTheSlowestRankOfAStageAndBytesFromTheCounters) {
  TrainRun run;
  run.config.mesh = {1, 2, 2};
  run.config.global_batch = 8;
  run.config.overlap = false;
  run.config.compress[TrafficClass::pp_backward] = {.codec = "powersgd:rank=1+lep", .epilogue_only = true};
  const auto record = [](TrafficClass traffic, const char* codec, std::int64_t operations, std::int64_t bytes, double codec_us) {
    TrafficRecord t;
    t.traffic = traffic;
    t.codec = codec;
    t.operations = operations;
    t.total.link_bytes = bytes;
    t.total.encode_us = codec_us;
    return t;
  };
  for (int rank = 0; rank < 4; ++rank) {
    const int stage = mesh_coordinates(run.config.mesh, rank).pp;
    StepRecord s;
    s.forward_us = 400 + 4 * rank;  // the slower rank of a stage counts
    s.backward_us = 800;
    s.compute_us = s.forward_us + s.backward_us + 50;
    s.traffic.push_back(record(TrafficClass::dp_gradient, "none", 1, stage == 0 ? 10000 : 2000, 0));
    if (stage == 0) s.traffic.push_back(record(TrafficClass::pp_forward, "none", 4, 40000, 0));
    if (stage == 1) s.traffic.push_back(record(TrafficClass::pp_backward, "none", 3, 30000, 0));
    if (stage == 1) s.traffic.push_back(record(TrafficClass::pp_backward, "powersgd:rank=1+lep", 1, 1000, 7));
    run.ranks.push_back({s, s});
  }
  ClusterMachine machine;
  machine.between = {3, 8};
  const StepCosts costs = step_costs(run, machine);
  ASSERT_EQ(costs.stage.size(), 2u);
  const auto slowest = [&](int stage) {
    double most = 0;
    for (int rank = 0; rank < 4; ++rank)
      if (mesh_coordinates(run.config.mesh, rank).pp == stage) most = std::max(most, 400.0 + 4 * rank);
    return most / 4;
  };
  for (int stage = 0; stage < 2; ++stage) EXPECT_DOUBLE_EQ(costs.stage[static_cast<std::size_t>(stage)].forward_us, slowest(stage));
  EXPECT_DOUBLE_EQ(costs.stage[1].backward_us, 200);
  EXPECT_DOUBLE_EQ(costs.stage[0].forward_sums_us, 0);
  EXPECT_DOUBLE_EQ(costs.gradient_us[0], 2 * 3 + 10);  // a ring of two: two messages
  EXPECT_DOUBLE_EQ(costs.gradient_us[1], 2 * 3 + 2);
  EXPECT_DOUBLE_EQ(costs.forward_message_us(0, 2), 3 + 10);
  EXPECT_DOUBLE_EQ(costs.backward_message_us(1, 2), 3 + 10);
  EXPECT_DOUBLE_EQ(costs.backward_message_us(1, 3), 3 + 1 + 7) << "stage 1 of 2 compresses its last message";
  EXPECT_DOUBLE_EQ(costs.optimizer_us, 50 + 4 * 3) << "and the norm's sums over stages and replicas, two messages each";
  for (const auto& [scope, messages] : {std::pair(NormScope::model, 2), std::pair(NormScope::none, 0)}) {
    run.ranks.front().front().norm_scope = scope;
    EXPECT_DOUBLE_EQ(step_costs(run, machine).optimizer_us, 50 + messages * 3) << "stages alone where a rank has the whole mean gradient, and nobody where nothing is clipped";
  }
  // Two ranks to a node that share its card: each has half of it, and neighbours inside a node have none of it in their way.
  machine.ranks_per_node = 2;
  const StepCosts shared = step_costs(run, machine);
  EXPECT_DOUBLE_EQ(shared.gradient_us[0], 2 * 3 + 2 * 10) << "rank = stage + 2 x replica: both stages of a replica send at once";
  EXPECT_DOUBLE_EQ(shared.forward_message_us(0, 2), 0);
  machine.ranks_per_node = 1;
  // The table over replicas, then over the two stages, 4000 bytes each way: a record for each group.
  for (auto& steps : run.ranks)
    for (StepRecord& s : steps)
      for (int group = 0; group < 2; ++group) s.traffic.push_back(record(TrafficClass::embedding, "none", 1, 4000, 0));
  machine.ranks_per_node = 1;
  EXPECT_DOUBLE_EQ(step_costs(run, machine).table_us[0], 2 * 3 + 4);
  EXPECT_DOUBLE_EQ(step_costs(run, machine).embedding_us, 2 * 3 + 4);
  run.config.overlap = true;
  run.config.model.layers = 4;
  EXPECT_DOUBLE_EQ(step_costs(run, machine).gradient_us[0], 16) << "all in one bucket, which waits for the last gradient";
  for (auto& steps : run.ranks)
    for (StepRecord& s : steps) s.traffic.front().operations = 2;
  EXPECT_DOUBLE_EQ(step_costs(run, machine).gradient_us[0], (2 * 3 + 5 + 2.5) / 2) << "two, of which the first hides behind the first layer's backward pass";
}

// Sixteen sums between four replicas, six messages each on a ring; a small one is 0.6 or 60 us on the link.
TEST(TrainPrediction, OfSmallSumsTheLatenciesOrTheBytesCountWhicheverTakeLonger) {
  TrainRun run;
  run.config.mesh = {1, 1, 4};
  run.config.overlap = false;
  run.config.global_batch = 4, run.config.micro_batch = 1;
  ClusterMachine machine;
  machine.between = {3, 8};  // 3 us, a byte takes a nanosecond
  const auto sums_us = [&](std::int64_t bytes, std::int64_t dense_bytes, int together) {
    StepRecord s;
    s.forward_us = 400, s.backward_us = 800, s.compute_us = 1250;
    TrafficRecord t;
    t.traffic = TrafficClass::dp_gradient, t.codec = "none", t.operations = 16, t.total.link_bytes = 16 * bytes, t.total.dense_bytes = 16 * dense_bytes, t.total.encode_us = 5;
    s.traffic = {t};
    run.ranks = {{s}, {s}, {s}, {s}};
    run.config.messages_at_once = together;
    return step_costs(run, machine).gradient_us[0];
  };
  EXPECT_NEAR(sums_us(600, 400, 8), 2 * (6 * 3 + 0.6) + 7 * 0.1 + 5, 1e-9) << "two times eight together, the eighth seven messages behind the first";
  EXPECT_NEAR(sums_us(60000, 40000, 8), 16 * 60 + 3 + 5, 1e-9) << "the link has always something to carry";
  EXPECT_NEAR(sums_us(600, 400, 1), 16 * (6 * 3 + 0.6) + 5, 1e-9) << "in turn";
  EXPECT_NEAR(sums_us(600, small_bytes + 1, 8), 16 * (6 * 3 + 0.6) + 5, 1e-9) << "large ones go in turn";
  sums_us(600, 400, 8);
  for (auto& steps : run.ranks) {
    TrafficRecord vectors = steps.front().traffic.front();
    vectors.codec = "powersgd:rank=4+ef", vectors.operations = 3, vectors.total.link_bytes = 3 * 1200, vectors.total.encode_us = 0;  // two sums each: twelve messages of 0.1 us
    steps.front().traffic.push_back(vectors);
  }
  EXPECT_NEAR(step_costs(run, machine).gradient_us[0], 3 * (16 * 18.6 + 3 * 37.2) / 19 + 7 * (16 * 0.1 + 3 * 0.1) / 19 + 5, 1e-9) << "under way together with those of another codec";
}

// Two stages, two replicas. Of a table that is shared out the replicas' sum is one of the exchanges of matrices, and one sum over the two stages is left.
TEST(TrainPrediction, ATiedTableThatIsSharedOutTravelsWithTheMatricesAndThenBetweenItsStages) {
  register_gathering_store();
  TrainRun run;
  run.config.mesh = {1, 2, 2};
  run.config.model.layers = 2, run.config.model.vocab = 50, run.config.model.hidden = 8, run.config.model.heads = 2, run.config.model.max_seq = run.config.seq = 10;
  run.config.global_batch = 8;
  run.config.overlap = false;
  const auto record = [](TrafficClass traffic, std::int64_t operations, std::int64_t bytes, double codec_us) {
    TrafficRecord t;
    t.traffic = traffic, t.codec = "none", t.operations = operations, t.total.link_bytes = bytes, t.total.encode_us = codec_us;
    return t;
  };
  StepRecord s;
  s.forward_us = 400, s.backward_us = 800, s.compute_us = 1250;
  s.traffic = {record(TrafficClass::embedding, 1, 4000, 5), record(TrafficClass::grad_reduce_scatter, 10, 20000, 0), record(TrafficClass::param_all_gather, 20, 40000, 0)};
  run.ranks = {{s}, {s}, {s}, {s}};
  ClusterMachine machine;
  machine.between = {3, 8};  // a byte takes a nanosecond
  for (const int stage : {1, 93}) {
    run.config.zero_stage = stage;
    const StepCosts costs = step_costs(run, machine);
    EXPECT_EQ(costs.table_us, (std::vector<double>{0, 0})) << "zero " << stage;
    EXPECT_DOUBLE_EQ(costs.embedding_us, 2 * 3 + 4 + 5) << "zero " << stage;
  }
  const StepCosts costs = step_costs(run, machine);
  ASSERT_TRUE(costs.unshard_us && costs.reduce_us);
  const double table = 50 * 8, positions = 10 * 8, layer = 12 * 8 * 8;
  for (const auto& cost : {costs.unshard_us, costs.reduce_us}) {
    EXPECT_NEAR(cost(0, 0, 0).total() / cost(0, 0, 1).total(), (table + positions) / layer, 1e-12) << "the embedding against a layer";
    EXPECT_NEAR(cost(1, 0, 1).total() / cost(1, 0, 0).total(), table / layer, 1e-12) << "the head against a layer";
  }
}

TEST(TrainTables, TimedRunsHaveTimesAndBytesButNoLosses) {
  const results::TrainingTables tables = training_tables(example());
  EXPECT_TRUE(tables.curve.empty());
  ASSERT_EQ(tables.time.size(), 1u);
  const results::TrainingTimeRow& time = tables.time[0];
  EXPECT_EQ(time.compute, "timed");
  EXPECT_EQ(time.steps, 3);
  EXPECT_DOUBLE_EQ(time.step_ms, 12) << "median over steps of the slower rank's 11, 12, 13 ms";
  EXPECT_DOUBLE_EQ(time.compute_ms, 3);
  // 4 ms on the busiest rank, 4 micro-batches over 2 stages: a quarter more for the bubble.
  EXPECT_NEAR(time.communication_share, 1 - 5.0 / 12, 1e-12);
  ASSERT_EQ(tables.traffic.size(), 2u);
  const results::TrainingTrafficRow& coded = tables.traffic[0];
  EXPECT_EQ(coded.traffic, "pp_forward");
  EXPECT_EQ(coded.operations, 8);
  EXPECT_EQ(coded.dense_bytes, 8000) << "both ends of a message report its dense size";
  EXPECT_EQ(coded.link_bytes, 2000);
  EXPECT_DOUBLE_EQ(coded.encode_us, 100);
  EXPECT_DOUBLE_EQ(coded.relative_error, 0.25);
  EXPECT_TRUE(std::isnan(tables.traffic[1].relative_error));
  ASSERT_EQ(tables.steps.size(), 6u) << "two classes in three steps";
  std::int64_t sent = 0;
  for (const results::TrainingStepRow& row : tables.steps) sent += row.link_bytes;
  EXPECT_EQ(sent, link_bytes_of(example()));
}

TEST(TrainTables, RealRunsHaveACurveOfCumulativeBytesAndNoShareWhenRanksShareCores) {
  TrainRun run = example();
  run.config.compute = ComputeMode::real;
  run.validation = {{1, 4.25}};
  results::TrainingTables tables = training_tables(run);
  ASSERT_EQ(tables.curve.size(), 3u);
  EXPECT_EQ(tables.curve[0].link_bytes, 2020);
  EXPECT_EQ(tables.curve[2].link_bytes, 6060);
  EXPECT_EQ(link_bytes_of(run), 6060);
  EXPECT_TRUE(std::isnan(tables.curve[0].validation_loss));
  EXPECT_EQ(tables.curve[1].validation_loss, 4.25);
  EXPECT_TRUE(std::isnan(tables.time[0].communication_share));
  run.oversubscription = 0.5;
  EXPECT_FALSE(std::isnan(training_tables(run).time[0].communication_share));
}

TEST(TrainTables, UtilisationIsModelFlopsOverThePeakOfRealSteps) {
  TrainRun run = example();
  run.peak_gflops = 50, run.peak = "stated";
  const results::TrainingTimeRow timed = training_tables(run).time[0];
  const double tokens = static_cast<double>(run.config.global_batch * run.config.seq);
  EXPECT_DOUBLE_EQ(timed.tokens_per_second, tokens / 0.012);
  EXPECT_TRUE(std::isnan(timed.mfu)) << "replayed computing says nothing about hardware";
  run.config.compute = ComputeMode::real, run.oversubscription = 1;
  const results::TrainingTimeRow real = training_tables(run).time[0];
  EXPECT_DOUBLE_EQ(real.gflops, model_gflops(run.config.model_kind, run.config.model, run.config.seq, run.config.global_batch * run.config.seq, 0.012));
  EXPECT_DOUBLE_EQ(real.mfu, real.gflops / 50);
  EXPECT_EQ(real.peak, "stated");
  run.oversubscription = 2;
  EXPECT_TRUE(std::isnan(training_tables(run).time[0].mfu)) << "ranks that fight for cores";
  run.device = "a GPU";
  EXPECT_FALSE(std::isnan(training_tables(run).time[0].mfu)) << "what they share is shared in the peak, too";
  run.device = "emulated on the host (no GPU)";
  EXPECT_TRUE(std::isnan(training_tables(run).time[0].mfu));
}

// Two nodes of two: inside at the rate of a node, across at the half of a card that a rank has, one message each; updated rows come after all passes.
TEST(TrainPrediction, ExchangesInTwoStepsTakeTheLinkOfEachStep) {
  TrainRun run;
  run.config.mesh = {1, 1, 4};
  run.config.mesh.dp_nodes = 2;
  run.config.zero_stage = 1;
  run.config.global_batch = 4, run.config.micro_batch = 1;
  const auto record = [](TrafficClass traffic, ChannelLevel level, std::int64_t operations, std::int64_t bytes, double codec_us) {
    TrafficRecord t;
    t.traffic = traffic, t.level = level, t.codec = "none", t.operations = operations, t.total.link_bytes = bytes, t.total.encode_us = codec_us;
    return t;
  };
  StepRecord s;
  s.forward_us = 400, s.backward_us = 100, s.compute_us = 500;
  s.traffic = {record(TrafficClass::grad_reduce_scatter, ChannelLevel::inside, 5, 80000, 7), record(TrafficClass::grad_reduce_scatter, ChannelLevel::across, 5, 4000, 11),
               record(TrafficClass::param_all_gather, ChannelLevel::across, 6, 2000, 0), record(TrafficClass::param_all_gather, ChannelLevel::inside, 6, 160000, 0)};
  run.ranks = {{s}, {s}, {s}, {s}};
  ClusterMachine machine;
  machine.ranks_per_node = 2;
  machine.between = {3, 8};   // 1 byte per nanosecond, shared by two
  machine.inside = {1, 800};
  // Five or six small messages are under way together.
  const double sums = (1 * 1 + 0.8 + 7) + (1 * 3 + 8 + 11), updated = (1 * 3 + 4) + (1 * 1 + 1.6);
  run.config.overlap = false;
  EXPECT_NEAR(step_costs(run, machine).gradient_us[0], sums + updated, 1e-9);
  TrainRun large = run;
  for (std::vector<StepRecord>& rank : large.ranks)
    for (TrafficRecord& t : rank.front().traffic) t.total.dense_bytes = t.operations * (small_bytes + 1);
  EXPECT_NEAR(step_costs(large, machine).gradient_us[0], sums + updated + 4 * (1 + 3) + 5 * (3 + 1), 1e-9) << "one after the other";
  run.config.overlap = true;
  const double layers = static_cast<double>(run.config.model.layers);
  EXPECT_NEAR(step_costs(run, machine).gradient_us[0], sums / layers + updated, 1e-9) << "sums but the last layer's hide behind the backward pass";
}

// Two layers on two replicas: what is gathered and reduced stands in the schedule, by the sizes of the units, and nowhere else.
TEST(TrainPrediction, GathersOfAShardedStoreAreCountedWhereTheScheduleHasThem) {
  register_gathering_store();
  TrainRun run;
  run.config.mesh = {1, 1, 2};
  run.config.zero_stage = 93;
  run.config.overlap = false;
  run.config.model.layers = 2, run.config.model.vocab = 50, run.config.model.hidden = 8, run.config.model.heads = 2, run.config.model.max_seq = run.config.seq = 10;
  run.config.global_batch = 4, run.config.micro_batch = 1;  // two micro-batches each
  const auto record = [](TrafficClass traffic, std::int64_t operations, std::int64_t bytes) {
    TrafficRecord t;
    t.traffic = traffic, t.codec = "none", t.operations = operations, t.total.link_bytes = bytes;
    return t;
  };
  StepRecord s;
  s.forward_us = 400, s.backward_us = 800, s.compute_us = 1250;
  s.traffic = {record(TrafficClass::dp_gradient, 1, 2000), record(TrafficClass::grad_reduce_scatter, 10, 20000), record(TrafficClass::param_all_gather, 20, 40000)};
  run.ranks = {{s, s}, {s, s}};
  ClusterMachine machine;
  machine.between = {3, 8};
  const StepCosts costs = step_costs(run, machine);
  EXPECT_DOUBLE_EQ(costs.gradient_us[0], 2 * 3 + 2) << "the vectors alone";
  ASSERT_TRUE(costs.unshard_us && costs.reduce_us);
  double gathered = 0, reduced = 0, on_link = 0;
  int gathers = 0, reductions = 0;  // of units that hold matrices: those of one are under way together
  const Schedule schedule = training_schedule(run.config);
  for (const Instruction& i : schedule.stage[0]) {
    if (i.kind != InstructionKind::unshard && i.kind != InstructionKind::reduce) continue;
    const TransferTime us = i.kind == InstructionKind::unshard ? costs.unshard_us(0, i.chunk, i.unit) : costs.reduce_us(0, i.chunk, i.unit);
    (i.kind == InstructionKind::unshard ? gathered : reduced) += us.total();
    (i.kind == InstructionKind::unshard ? gathers : reductions) += us.total() > 0 ? 1 : 0;
    on_link += us.link;
  }
  EXPECT_NEAR(on_link, 40 + 20, 1e-9) << "latencies leave the link to others";
  EXPECT_GT(gathers, 3);
  EXPECT_GT(reductions, 2);
  EXPECT_NEAR(gathered, gathers * 3 + 40, 1e-9);
  EXPECT_NEAR(reduced, reductions * 3 + 20, 1e-9);
  EXPECT_NEAR(costs.unshard_us(0, 0, 0).total() / costs.unshard_us(0, 0, 1).total(), (50.0 + 10) * 8 / (12 * 8 * 8), 1e-12) << "the embedding's tables against a layer's matrices";
  EXPECT_GE(predict_step(schedule, costs).step_us, 1200 + 8);
  run.config.zero_stage = 0;
  EXPECT_FALSE(step_costs(run, machine).unshard_us) << "a store of whole parameters";
}

// Shards, and of the gathered matrices the most that are held at once.
TEST(TrainProgram, MemoryOfAShardedStoreCountsWhatIsGatheredAtOnce) {
  register_gathering_store();
  TrainConfig c = make_train_config({{"dp", "2"}, {"global-batch", "4"}});
  const std::int64_t h = c.model.hidden, whole = estimate_memory(c, {}).weights;
  c.zero_stage = 93;
  const std::int64_t layer = 12 * h * h * 4, matrices = c.model.layers * layer + (c.model.vocab + c.model.max_seq) * h * 4;
  const MemoryEstimate by_layer = estimate_memory(c, {});
  EXPECT_EQ(by_layer.weights, whole - matrices / 2);
  // keep = layer, one pass ahead: two neighbouring layers at once; keep = step: all of them.
  c.zero_keep = "step";
  EXPECT_EQ(estimate_memory(c, {}).workspace - by_layer.workspace, (c.model.layers - 2) * layer);
}

// A model that does not say what it is in numbers has no utilisation, not a GPT's, and the report says why.
TEST(TrainTables, UtilisationOfAModelWithoutGeometryIsSkippedInWords) {
  static const RegisterModel undeclared({"undeclared", "a test's", nullptr, nullptr});
  TrainRun run = example();
  run.config.model_kind = "undeclared";
  run.config.compute = ComputeMode::real, run.oversubscription = 1;
  run.peak_gflops = 50, run.peak = "stated";
  const results::TrainingTables tables = training_tables(run);
  EXPECT_TRUE(std::isnan(tables.time[0].gflops));
  EXPECT_TRUE(std::isnan(tables.time[0].mfu));
  const std::string text = describe_run(run, tables, "");
  EXPECT_NE(text.find("model FLOPs        skipped: --model undeclared declares no geometry"), std::string::npos) << text;
  EXPECT_NE(testing::message_of<UsageError>([&] { (void)describe_memory(run.config); }).find("declares no geometry"), std::string::npos);
}

// --memory-limit: what it refuses it says in numbers, and what it advises passes.
TEST(MemoryLimit, NamesTheRankItsNumbersAndTheFirstStageThatFits) {
  TrainConfig c = make_train_config({{"dp", "4"}, {"global-batch", "4"}, {"hidden", "128"}, {"layers", "4"}});
  const std::int64_t whole = estimate_memory(c, {}).total();
  EXPECT_NO_THROW(check_memory_limit(c, whole));
  const std::string said = testing::message_of<UsageError>([&] { check_memory_limit(c, whole - 1); });
  char needed[32];
  std::snprintf(needed, sizeof needed, "rank 0 needs %.1f MiB", static_cast<double>(whole) / (1 << 20));
  EXPECT_NE(said.find(needed), std::string::npos) << said;
  EXPECT_NE(said.find("--zero-stage 1 needs"), std::string::npos) << said;
  c.zero_stage = 1;
  EXPECT_NO_THROW(check_memory_limit(c, whole - 1));
  c.zero_stage = 3;
  const std::int64_t least = estimate_memory(c, {}).total();
  c.zero_stage = 0;
  std::snprintf(needed, sizeof needed, "--zero-stage 3 needs %.1f MiB", static_cast<double>(least) / (1 << 20));
  EXPECT_NE(testing::message_of<UsageError>([&] { check_memory_limit(c, least); }).find(needed), std::string::npos);
}

TEST(MemoryLimit, AdvisesRecomputationInItsOwnWordsWhereActivationsAreMost) {
  const TrainConfig c = make_train_config({{"hidden", "64"}, {"layers", "2"}, {"micro-batch", "32"}, {"global-batch", "32"}});
  const std::int64_t whole = estimate_memory(c, {}).total();
  const std::string said = testing::message_of<UsageError>([&] { check_memory_limit(c, whole - 1); }), option = "--recompute ";
  const std::size_t at = said.find(option);
  ASSERT_NE(at, std::string::npos) << said;
  const std::string word = said.substr(at + option.size(), said.find(',', at) - at - option.size());
  const TrainConfig advised = make_train_config({{"hidden", "64"}, {"layers", "2"}, {"micro-batch", "32"}, {"global-batch", "32"}, {"recompute", word}});
  EXPECT_LT(estimate_memory(advised, {}).total(), whole);
}

TEST(MemoryLimit, NamesAUnitThatIsLargerThanTheLimitByItself) {
  // A table of 256 x 512 numbers (0.5 MiB) beside layers of 12 x 512 x 512 (12 MiB).
  const TrainConfig c = make_train_config({{"dp", "4"}, {"zero-stage", "3"}, {"global-batch", "4"}, {"hidden", "512"}, {"layers", "2"}});
  const std::string said = testing::message_of<UsageError>([&] { check_memory_limit(c, 20 << 20); });
  for (const char* part : {"more than the limit of 20.0", "alone has 12.", " MiB of weights", "--tp 2"}) EXPECT_NE(said.find(part), std::string::npos) << part << " is not in: " << said;
  // A unit that fits with its gradient is not the reason.
  EXPECT_EQ(testing::message_of<UsageError>([&] { check_memory_limit(c, 26 << 20); }).find("alone"), std::string::npos);
  // Flat parameters that are wrapped by size are what is whole.
  TrainConfig flat = c;
  flat.zero_layout = "flat", flat.zero_wrap = 600'000;
  EXPECT_NE(testing::message_of<UsageError>([&] { check_memory_limit(flat, 1 << 20); }).find("alone has"), std::string::npos);
}

TEST(TrainTables, ACellHasOneRowPerClassAndCodec) {
  const std::vector<results::CellRow> rows = training_rows(example());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].operation, "train_step");
  EXPECT_EQ(rows[0].protocol, "point_to_point");
  EXPECT_EQ(rows[0].link_bytes, 1000);
  EXPECT_EQ(rows[0].link_bytes_max, 2000);
  EXPECT_EQ(rows[0].repetitions, 3);
  EXPECT_EQ(rows[0].dtype, "bf16");
  EXPECT_EQ(rows[1].traffic, "control");
  TrainRun lonely;
  lonely.config = make_train_config({});
  lonely.ranks = {{StepRecord()}};
  EXPECT_EQ(training_rows(lonely).size(), 1u) << "one rank sends nothing, but its cell was run";
}

TEST(Timeline, RowsOfAllRanksStartAtZero) {
  std::vector<TraceSpan> spans = {{TraceCategory::compute, "forward", 3, 1, 5'000, 9'000},
                                  {TraceCategory::wait, "wait for stage", -1, -1, 4'000, 5'000}};
  const std::string early = to_text(spans);
  for (TraceSpan& span : spans) span.begin_ns += 500, span.end_ns += 500;
  const auto rows = timeline_rows({to_text(spans), early}, "dense", "shm");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].category, "wait");
  EXPECT_EQ(rows[0].name, "wait for stage");
  EXPECT_DOUBLE_EQ(rows[0].start_us, 0.5);
  EXPECT_EQ(rows[1].name, "forward 3");
  EXPECT_EQ(rows[1].micro, 1);
  EXPECT_EQ(rows[2].rank, 1);
  EXPECT_DOUBLE_EQ(rows[2].start_us, 0);
  EXPECT_DOUBLE_EQ(rows[3].end_us, 5);
  EXPECT_THROW((void)timeline_rows({"compute\tx\t1\t2"}, "", ""), CorruptData);
}

TEST(Timeline, TheTraceIsJsonWithAProcessPerRankAndNoOverlapsInAThread) {
  std::vector<TraceSpan> spans = {{TraceCategory::transfer, "tp_forward", -1, 0, 0, 10'000},
                                  {TraceCategory::transfer, "dp_gradient", -1, -1, 5'000, 15'000},
                                  {TraceCategory::transfer, "tp_forward", -1, 1, 10'000, 20'000},
                                  {TraceCategory::encode, "tp_forward", -1, 0, 1'000, 2'000}};
  const auto trace = nlohmann::json::parse(
      chrome_trace(timeline_rows({to_text(spans), to_text(spans)}, "dense", "shm"), {2, 1, 1, "tp-pp-dp"}));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  std::set<std::string> processes, categories;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes.insert(event.at("args").at("name"));
    if (event.at("ph") != "X") continue;
    categories.insert(event.at("cat"));
    threads[{event.at("pid"), event.at("tid")}].emplace_back(
        event.at("ts").get<double>(), event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0 (tp 0, pp 0, dp 0)", "rank 1 (tp 1, pp 0, dp 0)"}));
  EXPECT_EQ(categories, (std::set<std::string>{"encode", "transfer"}));
  EXPECT_EQ(threads.size(), 6u) << "work and two pairs of transfers on each rank";
  for (auto& [thread, times] : threads)
    for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i].first, times[i - 1].second);
}

TEST(TrainReport, TheProgressLineSaysStepLossPaceAndRest) {
  EXPECT_EQ(progress_line(12, 100, 2.3456, std::nan(""), 5432.1, 41.2),
            "step 12 of 100  loss 2.346  5432 tokens/s  ETA 0:42");
  EXPECT_EQ(progress_line(100, 100, std::nan(""), 2.4, 10, 3661),
            "step 100 of 100  validation 2.400  10 tokens/s  ETA 1:01:01");
  EXPECT_EQ(progress_line(1, 2, 1, std::nan(""), 10, std::nan("")), "step 1 of 2  loss 1.000  10 tokens/s");
}

TEST(TrainReport, ALogFileIsToldTheStepAfterASilence) {
  const TrainRun run = example();
  const auto told = [&](double silence_s) {
    ::testing::internal::CaptureStderr();
    TrainProgress progress(true, run.config, silence_s);
    progress.show(run.ranks[0][0], std::nan(""));
    progress.show(run.ranks[0][0], std::nan(""));
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string line = "step 1 of " + std::to_string(run.config.steps), each = told(0);
  EXPECT_NE(each.find(line), each.rfind(line)) << "both steps: " << each;
  EXPECT_EQ(told(1e9), "");
}

TEST(TrainReport, TheSummarySaysLossPerplexityTimeBytesAndShare) {
  TrainRun run = example();
  const std::string remark = "what the data say";
  const std::string timed = describe_run(run, training_tables(run), remark);
  EXPECT_NE(timed.find("58.3 % of the step"), std::string::npos) << timed;
  EXPECT_EQ(timed.find("loss"), std::string::npos) << timed;
  run.config.compute = ComputeMode::real;
  run.validation = {{2, std::log(8.0)}};
  const std::string real = describe_run(run, training_tables(run), remark);
  EXPECT_NE(real.find("perplexity 8.000"), std::string::npos) << real;
  EXPECT_NE(real.find("says nothing about time"), std::string::npos) << real;
  EXPECT_NE(real.find("nats per token"), std::string::npos) << real;
  run.adds_losses = adds_to_token_loss("bert:task=pretraining");
  const std::string summed = describe_run(run, training_tables(run), remark);
  EXPECT_EQ(summed.find("perplexity"), std::string::npos) << summed;
  EXPECT_EQ(summed.find("nats per token"), std::string::npos) << summed;
  for (const char* model : {"gpt", "bert:task=masked", "bert"}) EXPECT_FALSE(adds_to_token_loss(model)) << model;
  EXPECT_NE(real.find("2.0 kB per step"), std::string::npos) << real;
}

}  // namespace
}  // namespace thinwire::bench
