// labels: unit
// The step model against worked examples (docs/papers/optimus_cc.md, "Worked examples") and closed forms.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "models/parallel/channels/epilogue.h"
#include "models/cost_model/link_model.h"
#include "models/cost_model/machine_file.h"
#include "models/cost_model/step_files.h"
#include "models/cost_model/step_model.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

StepCosts even(int stages, double forward, double backward, double message) {
  StepCosts c;
  c.stage.assign(static_cast<std::size_t>(stages), {forward, backward, 0, 0});
  c.gradient_us.assign(static_cast<std::size_t>(stages), 0);
  c.forward_message_us = c.backward_message_us = [=](int, int) { return message; };
  return c;
}

TEST(StepModel, HasTheMakespansOfTheWorkedExamples) {
  struct Case {
    int p, m;
    double none, epilogue, all;
  };
  for (const Case& c : {Case{4, 16, 84.4, 83.5214, 80.3}, {4, 8, 48.8, 47.9214, 46.4571}, {2, 8, 38.4, 38.1071, 37.2286}, {8, 32, 176.4, 174.35, 166.4429}}) {
    const Schedule s = make_schedule("1f1b", c.p, c.m);
    StepCosts costs = even(c.p, 1, 3, 0.3);
    EXPECT_NEAR(predict_step(s, costs).step_us, c.none, 1e-4);
    costs.backward_message_us = [&](int sender, int micro) { return in_epilogue(micro, sender, c.p, c.m) ? 0.3 / 42 : 0.3; };
    EXPECT_NEAR(predict_step(s, costs).step_us, c.epilogue, 1e-4);
    costs.backward_message_us = [](int, int) { return 0.3 / 42; };
    EXPECT_NEAR(predict_step(s, costs).step_us, c.all, 1e-4);
  }
}

// T = (M+P-1)(tf+tb) + c (2M(P-1)/P + 2(P-2)); epilogue saves (P-1)(c-c'), everywhere (M(P-1)/P + P-2)(c-c'). M a multiple of P, c <= tf.
TEST(StepModel, FollowsTheClosedFormOfStrict1F1B) {
  for (int p = 2; p <= 8; ++p)
    for (int m = p; m <= 32; m += p)
      for (const double c : {0.05, 0.3, 1.0})
        for (const double backward : {1.0, 2.0, 3.0}) {
          const Schedule s = make_schedule("1f1b", p, m);
          StepCosts costs = even(p, 1, backward, c);
          const double none = (m + p - 1) * (1 + backward) + c * (2.0 * m * (p - 1) / p + 2 * (p - 2)), less = c / 41.7;
          EXPECT_NEAR(predict_step(s, costs).step_us, none, 1e-9 * none) << p << " " << m << " " << c << " " << backward;
          costs.backward_message_us = [&](int sender, int micro) { return in_epilogue(micro, sender, p, m) ? less : c; };
          EXPECT_NEAR(predict_step(s, costs).step_us, none - (p - 1) * (c - less), 1e-9 * none) << p << " " << m << " " << c << " " << backward;
          costs.backward_message_us = [&](int, int) { return less; };
          EXPECT_NEAR(predict_step(s, costs).step_us, none - (1.0 * m * (p - 1) / p + p - 2) * (c - less), 1e-9 * none)
              << p << " " << m << " " << c << " " << backward;
        }
}

// Stage s ends s (tb + c) before stage 0, so the first stages decide.
TEST(StepModel, SelectiveStagesPayUpToTheWorkedNumberAndNotBeyond) {
  const Schedule s = make_schedule("1f1b", 4, 16);
  const double base = predict_step(s, even(4, 1, 3, 0.3)).step_us;
  struct Case {
    double dense, compressed;
    std::vector<double> ends;
    int worth;
  };
  for (const Case& c : {Case{10, 2, {10, 6.7, 3.4, 2, 2}, 3}, Case{6, 1.5, {6, 2.7, 1.5, 1.5, 1.5}, 2}}) {
    for (int k = 0; k <= 4; ++k) {
      StepCosts costs = even(4, 1, 3, 0.3);
      for (int stage = 0; stage < 4; ++stage) costs.gradient_us[static_cast<std::size_t>(stage)] = stage < k ? c.compressed : c.dense;
      EXPECT_NEAR(predict_step(s, costs).step_us - base, c.ends[static_cast<std::size_t>(k)], 1e-9) << "K " << k;
    }
    EXPECT_EQ(stages_worth_compressing(c.dense, c.compressed, 3.3, 4), c.worth);
  }
  EXPECT_EQ(stages_worth_compressing(1, 2, 3.3, 4), 0);
  EXPECT_EQ(stages_worth_compressing(100, 2, 3.3, 4), 4);
}

TEST(StepModel, ExposesOnlyWhatNothingHides) {
  const Schedule s = make_schedule("1f1b", 4, 8);
  StepCosts costs = even(4, 1, 2, 0);
  costs.stage[0].forward_sums_us = 0.25;  // the first stage paces the others
  costs.gradient_us = {1, 2, 3, 0};
  costs.embedding_us = 0.5;
  costs.optimizer_us = 0.125;
  const StepPrediction p = predict_step(s, costs);
  const auto exposed = [&](StepPart part) { return p.exposed_us[static_cast<std::size_t>(part)]; };
  EXPECT_EQ(exposed(StepPart::forward_messages), 0);
  EXPECT_EQ(exposed(StepPart::backward_messages), 0);
  EXPECT_GT(exposed(StepPart::tensor_sums), 0);
  EXPECT_LE(exposed(StepPart::tensor_sums), 8 * 0.25);
  EXPECT_DOUBLE_EQ(exposed(StepPart::gradients), 1);  // stages 1 and 2 end 2 and 4 earlier: only stage 0's is seen
  EXPECT_DOUBLE_EQ(exposed(StepPart::embedding), 0.5);
  EXPECT_THROW(predict_step(s, even(3, 1, 1, 1)), UsageError);
}

TEST(LinkModel, CountsMessagesOfARing) {
  const LinkModel link{10, 8};  // 1000 bytes take one microsecond
  EXPECT_DOUBLE_EQ(link.message_us(4000), 14);
  EXPECT_DOUBLE_EQ(link.ring_all_reduce_us(4000, 4), 6 * 11);
  EXPECT_DOUBLE_EQ(link.ring_all_reduce_us(4000, 1), 0);
  EXPECT_DOUBLE_EQ(link.ring_all_gather_us(1000, 4), 3 * 11);
  EXPECT_DOUBLE_EQ(LinkModel{}.message_us(1e9), 0);
}

TEST(LinkFit, FindsLatencyAndRateOfExactTimesAndOfScatteredOnes) {
  const LinkModel truth{25, 4};
  Random random(3, "link fit");
  for (const double scatter : {0.0, 0.02}) {
    std::vector<FitPoint> points;
    std::uint64_t draw = 0;
    for (double bytes = 64; bytes < 1e7; bytes *= 2)
      points.push_back({6, 1.5 * bytes, truth.ring_all_reduce_us(bytes, 4) * (1 + scatter * random.normal(draw++))});
    const LinkFit fit = fit_link(points);
    EXPECT_NEAR(fit.link.latency_us, 25, 25 * (1e-9 + 2 * scatter));
    EXPECT_NEAR(fit.link.gbps, 4, 4 * (1e-9 + 2 * scatter));
    EXPECT_LE(fit.worst, 1e-9 + 4 * scatter);
  }
  const std::vector<FitPoint> one = {{6, 1000, 50}};
  EXPECT_THROW(fit_link(one), UsageError);
  const std::vector<FitPoint> alike = {{6, 1000, 50}, {12, 2000, 100}};
  EXPECT_THROW(fit_link(alike), UsageError);
  const std::vector<FitPoint> no_latency = {{2, 1000, 1}, {2, 4000, 4.4}};
  EXPECT_EQ(fit_link(no_latency).link.latency_us, 0);
  const std::vector<FitPoint> no_rate = {{1, 100, 10}, {1, 1000, 8}};  // falls with the size: latency alone, by least squares of relative errors
  EXPECT_TRUE(std::isinf(fit_link(no_rate).link.gbps));
  EXPECT_NEAR(fit_link(no_rate).link.latency_us, (1.0 / 10 + 1.0 / 8) / (1.0 / 100 + 1.0 / 64), 1e-12);
}

TEST(MachineFile, ComesBackAsItWasWrittenAndRefusesOthersByName) {
  const testing::TemporaryFolder folder;
  MachineFile machine;
  machine.links["netns:1gbit"] = {62.5, 0.93};
  machine.links["shm"] = {1.25, std::numeric_limits<double>::infinity()};
  machine.products = results::TunedProducts{"openblas:kernels=SkylakeX", "a processor", "", 2};  // of doctor --tune: kept by who adds a link
  const MachineFile back = MachineFile::read(folder.write("m.toml", machine.to_toml()));
  ASSERT_TRUE(back.products);
  EXPECT_EQ(back.products->library, "openblas:kernels=SkylakeX");
  EXPECT_EQ(back.to_toml(), machine.to_toml());
  EXPECT_EQ(back.links.at("netns:1gbit").latency_us, 62.5);
  EXPECT_TRUE(std::isinf(back.links.at("shm").gbps));
  EXPECT_TRUE(MachineFile::read(folder.path() + "/none.toml").links.empty());
  for (const char* bad : {"x = 1\n", "[link.a]\nlatency = 1\n", "[link.a]\ngbps = 0\n", "[link.a]\ngbps = \"fast\"\n", "[link\n", "[link.a]\nlatency_us = -1\n", "[products]\nlibrary = 1\n"})
    EXPECT_NE(testing::message_of<UsageError>([&] { (void)MachineFile::read(folder.write("bad.toml", bad)); }).find("bad.toml"), std::string::npos) << bad;
}

// A stage that waits for its sends loses a message per forward it sends; nothing is lost where messages cost nothing.
TEST(StepModel, BlockingSendsKeepTheSenderFromComputing) {
  const Schedule s = make_schedule("1f1b", 2, 4);
  StepCosts costs = even(2, 1, 3, 0);
  costs.sends = SendMode::departing;
  EXPECT_DOUBLE_EQ(predict_step(s, costs).step_us, predict_step(s, even(2, 1, 3, 0)).step_us);
  // Stage 0: F0, send (0.5), F1, send, wait; its second forward begins at 1.5 instead of 1.
  costs = even(2, 1, 3, 0.5);
  costs.sends = SendMode::departing;
  const StepPrediction p = predict_step(s, costs);
  EXPECT_DOUBLE_EQ(p.pipeline.stage[0][2].end, 2.5) << "the second forward begins when the first has left";
  EXPECT_GT(p.step_us, predict_step(s, even(2, 1, 3, 0.5)).step_us);
}

TEST(StepModel, SumsOverReplicasFollowTheLastMessageOnTheSameCardAndTheTableFollowsThem) {
  const Schedule s = make_schedule("1f1b", 2, 2);
  StepCosts costs = even(2, 1, 3, 0.5);
  costs.gradient_us = {0, 10};
  const double apart = predict_step(s, costs).stage_end_us[1];
  costs.sums_after_sends = true;
  EXPECT_DOUBLE_EQ(predict_step(s, costs).stage_end_us[1], apart + 0.5);
  costs.table_us = {0, 2};
  costs.embedding_us = 1;
  const StepPrediction p = predict_step(s, costs);
  EXPECT_DOUBLE_EQ(p.stage_end_us[1], apart + 2.5);
  EXPECT_DOUBLE_EQ(p.exposed_us[static_cast<std::size_t>(StepPart::embedding)], 3);
}

std::string shipped(const std::string& name) {
  return testing::source_folder() + "/experiments/predict/" + name + ".toml";
}

// docs/papers/optimus_cc.md, "Set-up and sizes": sizes per rank at T = 8, micro-batch 8, f32.
TEST(ClusterModel, HasTheSizesOfTheWorkedModels) {
  struct Case {
    const char* model;
    double chunk_mib, boundary_ms, table_mb, layer_raw, layer_sent, layers, ratio;
  };
  for (const Case& c : {Case{"gpt-2.5b", 7.5, 2.5, 49.2, 5529600, 1351680, 13, 41.7}, Case{"gpt-8.3b", 12, 4.0, 78.6, 14155776, 2162688, 18, 48.0}}) {
    const ModelShape model = read_model_shape(shipped(c.model));
    Execution e = read_execution(shipped("cb-fe-sc"));
    const ClusterSizes z = cluster_sizes(model, e);
    EXPECT_DOUBLE_EQ(z.boundary_bytes / (1 << 20), c.chunk_mib);
    EXPECT_NEAR(z.boundary_bytes / z.coded_boundary_bytes, c.ratio, 0.05);
    EXPECT_NEAR(z.table_bytes * 1e-6, c.table_mb, 0.05);
    // Stage 1: layers only, vectors travel as they are.
    const double vectors = c.layers * (7.0 / 8 + 6) * static_cast<double>(model.hidden);
    EXPECT_DOUBLE_EQ(z.gradient_numbers[1], c.layers * c.layer_raw + vectors);
    EXPECT_DOUBLE_EQ(z.sent_numbers[1], c.layers * c.layer_sent + vectors);
    EXPECT_DOUBLE_EQ(z.sent_numbers[3], z.gradient_numbers[3]) << "only the first three stages are compressed";
    ClusterMachine machine = read_cluster_machine(shipped("machine-16-nodes-of-8"));
    machine.between.latency_us = machine.inside.latency_us = 0;
    machine.inside.gbps = std::numeric_limits<double>::infinity();
    EXPECT_NEAR(cluster_costs(machine, model, e, RangeEnd::low).forward_message_us(0, 0) * 1e-3, c.boundary_ms, 0.03);
  }
}

// (2D-1)/(3D-2) of the bytes, and so of the time where all rings share a card alike.
TEST(ClusterModel, FusedEmbeddingTakesItsShareOfTheTwoSteps) {
  const ModelShape model = read_model_shape(shipped("gpt-2.5b"));
  ClusterMachine machine = read_cluster_machine(shipped("machine-16-nodes-of-8"));
  machine.between.latency_us = 0;
  const StepCosts two = cluster_costs(machine, model, read_execution(shipped("cb")), RangeEnd::high);
  const StepCosts fused = cluster_costs(machine, model, read_execution(shipped("cb-fe")), RangeEnd::high);
  EXPECT_NEAR(fused.embedding_us / (two.table_us[0] + two.embedding_us), 7.0 / 10, 1e-12);
  EXPECT_DOUBLE_EQ(two.table_us[1], 0);
}

TEST(ClusterModel, RanksOfANodeShareItsCard) {
  ClusterMachine m;
  m.ranks_per_node = 8;
  m.between = {5, 200};
  m.inside = {3, 1800};
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::tp_forward, 1, 8).gbps, 1800);
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::tp_forward, 1, 16).gbps, 200) << "one ring crosses each card";
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::dp_gradient, 8, 4).gbps, 25);
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::dp_gradient, 2, 4).gbps, 1800);
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::dp_gradient, 2, 8).gbps, 100) << "two rings cross each card";
  m.between_of[TrafficClass::dp_gradient] = {5, 400};
  EXPECT_DOUBLE_EQ(group_link(m, TrafficClass::dp_gradient, 8, 4).gbps, 50);
}

/// 8 ranks a node; sizes that every split of the test divides.
struct Small {
  ClusterMachine machine;
  ModelShape model{"small", 8, 256, 8, 64, 1024, "gpt"};
  Execution execution;
  Small(MeshShape mesh) {
    machine.name = "small", machine.ranks_per_node = 8, machine.inside = {3, 1800}, machine.between = {5, 200}, machine.tflops = {10, 10};
    execution.mesh = mesh, execution.micro_batches = 4;
  }
  StepCosts costs() const { return cluster_costs(machine, model, execution, RangeEnd::low); }
};

LinkModel link(double latency_us, double gbps) { return {latency_us, gbps}; }

TEST(ClusterModel, TheOrderOfRanksDecidesWhichSumsLeaveTheNode) {
  const Small inside({8, 1, 8, "tp-dp-pp"}), across({8, 1, 8, "dp-tp-pp"});
  const double bytes = cluster_sizes(inside.model, inside.execution).activation_bytes, sums = 2 * 8;
  EXPECT_NEAR(inside.costs().stage[0].forward_sums_us, sums * link(3, 1800).ring_all_reduce_us(bytes, 8), 1e-9);
  EXPECT_NEAR(across.costs().stage[0].forward_sums_us, sums * link(5, 200.0 / 8).ring_all_reduce_us(bytes, 8), 1e-9);
  EXPECT_LT(across.costs().gradient_us[0], inside.costs().gradient_us[0]) << "now the replicas are neighbours";
  Small gathers({8, 2, 1, "pp-tp-dp"});  // stages are neighbours, a boundary tensor's parts are gathered over tensor ranks two apart
  const double part = cluster_sizes(gathers.model, gathers.execution).boundary_bytes;
  EXPECT_NEAR(gathers.costs().forward_message_us(0, 0), link(3, 1800).message_us(part) + link(5, 100).ring_all_gather_us(part, 8), 1e-9);
}

TEST(ClusterModel, EveryPairOfTheEmbeddingSumThatLeavesANodeSharesItsCard) {
  const Small two({2, 2, 4, "tp-dp-pp"});
  const double table = cluster_sizes(two.model, two.execution).table_bytes;
  EXPECT_NEAR(two.costs().embedding_us, link(5, 200.0 / 8).ring_all_reduce_us(table, 2), 1e-9) << "eight pairs, each of all ranks of both nodes";
  Small fused = two;
  fused.execution.fused_embedding = true;
  EXPECT_NEAR(fused.costs().embedding_us, link(5, 200.0 / 2).ring_all_reduce_us(table, 8), 1e-9) << "a ring for each tensor rank";
  const Small few({2, 8, 1, "tp-pp-dp"});
  EXPECT_NEAR(few.costs().embedding_us, link(5, 200.0 / 2).ring_all_reduce_us(table, 2), 1e-9) << "of a node's eight ranks two hold the table";
  const Small beside({1, 8, 1, "pp-tp-dp"});
  EXPECT_NEAR(beside.costs().embedding_us, link(3, 1800).ring_all_reduce_us(2 * table, 2), 1e-9) << "all stages in a node";
}

TEST(ClusterModel, WithOneStageThereIsNothingToFuse) {
  Small two({1, 1, 4}), fused = two;
  fused.execution.fused_embedding = true;
  EXPECT_GT(two.costs().table_us[0], 0);
  EXPECT_EQ(two.costs().table_us, fused.costs().table_us);
  EXPECT_EQ(fused.costs().embedding_us, 0);
}

TEST(StepFiles, RefuseWhatTheyDoNotKnowByFileAndKey) {
  const testing::TemporaryFolder folder;
  const std::string machine = "ranks_per_node = 1\n[between]\ngbps = 1\n[compute]\ntflops = 1\n";
  EXPECT_DOUBLE_EQ(read_cluster_machine(folder.write("m.toml", machine)).tflops.high, 1);
  for (const std::string& bad : {std::string("ranks_per_node = 1\n"), machine + "x = 1\n", std::string("ranks_per_node = 8\n[between]\ngbps = 1\n[compute]\ntflops = 1\n"),
                                 machine + "stage_forward_us = 1\n", machine + "[between_of.warp]\ngbps = 1\n", std::string("ranks_per_node = 0\n"), std::string("[")})
    EXPECT_NE(testing::message_of<UsageError>([&] { (void)read_cluster_machine(folder.write("bad.toml", bad)); }).find("bad.toml"), std::string::npos) << bad;
  const std::string execution = "pp = 2\nmicro_batches = 4\n";
  EXPECT_EQ(read_execution(folder.write("e.toml", execution)).mesh.pp, 2);
  for (const std::string& bad : {std::string("pp = 2\n"), execution + "schedule = \"2f2b\"\n", execution + "[compress.pp_backward]\ncodec = \"powersgd\"\n",
                                 execution + "[compress.tp_forward]\nrank = 2\n", execution + "[compress.dp_gradient]\nrank = 2\nepilogue_only = true\n", execution + "sends = 1\n"})
    EXPECT_NE(testing::message_of<UsageError>([&] { (void)read_execution(folder.write("bad.toml", bad)); }).find("bad.toml"), std::string::npos) << bad;
  EXPECT_THROW((void)read_model_shape(folder.path() + "/none.toml"), EnvironmentError);
  Execution e = read_execution(shipped("cb-fe-sc"));
  e.compress[TrafficClass::dp_gradient].stages = 5;
  EXPECT_THROW((void)cluster_sizes(read_model_shape(shipped("gpt-2.5b")), e), UsageError) << "five stages of four";
}

}  // namespace
}  // namespace thinwire
