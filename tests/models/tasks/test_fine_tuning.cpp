// labels: mpi, parity
// ranks: 4
// timeout: 600
// Fine-tuning: BERT from a checkpoint of Hugging Face on a task in GLUE's layout. Every split of the ranks follows one rank, losses and metrics of whole dev sets
// alike; metrics are those that the losses imply; a run that is resumed inside an epoch ends as one that was not.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "models/optimizer/diverged.h"
#include "models/stage/model_kind.h"
#include "models/training/checkpoint/checkpoint.h"
#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/support/temporary_folder.h"
#include "support/source_folder.h"

namespace thinwire {
namespace {

using namespace testing;

/// What make_hugging_face.py and make_small_glue.py write, in a folder of rank 0 that all know.
class Files {
 public:
  Files() {
    char path[256] = {};
    if (world().rank() == 0) {
      folder_.emplace();
      for (const char* script : {"/tests/models/bert/make_hugging_face.py ", "/tests/models/tasks/make_small_glue.py "}) {
        const std::string command = "python3 " + testing::source_folder() + script + folder_->path();
        TW_ASSERT(std::system(command.c_str()) == 0, command);
      }
      folder_->path().copy(path, sizeof path - 1);
    }
    world().broadcast(path, sizeof path, 0)->wait();
    path_ = path;
  }
  ~Files() { world().barrier(); }
  const std::string& path() const { return path_; }

 private:
  std::optional<TemporaryFolder> folder_;
  std::string path_;
};

struct Case {
  const char *task, *options;
};
constexpr Case cases[] = {{"rte", "task=classification"}, {"mnli", "task=classification,classes=3"}, {"stsb", "task=regression"}};

TrainConfig config_of(const Case& of, const std::string& folder) {
  TrainConfig c;
  c.model_kind = std::string("bert:") + of.options;
  c.from = c.text = folder;
  c.vocabulary = folder + "/vocab.txt";
  c.data = std::string("task:name=") + of.task;
  c.model.dropout = 0.1;
  c.seq = c.model.max_seq = 8;
  c.global_batch = 16, c.micro_batch = 4;
  c.model = pretrained_sizes(c.model_kind, c.from, c.model);
  c.steps = 7;
  c.trainer.schedule = {5e-3, 5e-4, 1, 7};
  c.dtype = DType::f64;
  c.bucket_cap_mb = 0.002;
  return c;
}

std::unique_ptr<ParallelTrainer> trainer_of(Communicator& group, const TrainConfig& c) {
  return ParallelTrainer::make(group, c, open_data(c.data, c.text, c.model.seed, c.global_batch, c.vocabulary));
}

/// Losses and norms of the steps, then what evaluations before and after them gave.
std::vector<double> numbers_of(Communicator& group, const TrainConfig& c) {
  const auto trainer = trainer_of(group, c);
  std::vector<double> numbers;
  const auto evaluate = [&] {
    const Evaluation evaluation = trainer->evaluate();
    numbers.push_back(evaluation.loss);
    for (const Evaluation::Metric& metric : evaluation.metrics) numbers.push_back(metric.value);
  };
  evaluate();
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    numbers.push_back(record.loss), numbers.push_back(record.gradient_norm);
  }
  evaluate();
  return numbers;
}

struct Split {
  const char* name;
  int tp, pp, dp, micro, zero;
  bool sequence_parallel;
};
constexpr Split splits[] = {{"tp 2 x pp 2", 2, 2, 1, 2, 0, false},          {"pp 2 x dp 2", 1, 2, 2, 4, 0, false},
                            {"tp 2 x dp 2, zero 3", 2, 1, 2, 8, 3, false},  {"dp 4, zero 3", 1, 1, 4, 1, 3, false},
                            {"tp 2 x pp 2, sequences", 2, 2, 1, 4, 0, true}, {"pp 2 x dp 2, zero 2", 1, 2, 2, 2, 2, false}};

TEST(FineTuning, EverySplitFollowsOneRankInLossesAndMetrics) {
  const Files files;
  const auto alone = world().split(world().rank(), 0);
  for (const Case& of : cases) {
    const std::vector<double> reference = made_once([&] { return numbers_of(*alone, config_of(of, files.path())); });
    for (const Split& split : splits) {
      TrainConfig c = config_of(of, files.path());
      c.mesh.tp = split.tp, c.mesh.pp = split.pp, c.mesh.dp = split.dp;
      c.micro_batch = split.micro, c.zero_stage = split.zero, c.sequence_parallel = split.sequence_parallel;
      const std::vector<double> numbers = numbers_of(world(), c);
      ASSERT_EQ(numbers.size(), reference.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], reference[i], 1e-10 * std::max(1.0, std::abs(reference[i]))) << of.task << ", " << split.name << ": " << i;
    }
  }
}

/// Loss of one sample of a set by a whole model on one rank, as if `label` were its own.
class OneSample {
 public:
  OneSample(const TrainConfig& c, const Dataset& data)
      : config_(c), data_(data), stage_(make_stage<double>(c.model_kind, c.model, {}, {&tensor_, nullptr, &clock_, false})), saved_(stage_->new_saved()) {
    missing = load_pretrained(c.model_kind, c.from, c.model, *stage_);
  }
  double loss(std::int64_t sample, std::int32_t label) {
    Batch batch = data_.batch(static_cast<std::uint64_t>(sample / config_.global_batch), sample % config_.global_batch, 1, config_.seq);
    batch.ints("labels")[0] = label;
    batch.global_weight = batch.weight;
    PassContext pass{1, config_.seq, false};
    stage_->place(pass, batch, *saved_);
    for (std::size_t u = 0; u < stage_->units().size(); ++u) stage_->forward_unit(u, 1.0, *saved_);
    return read_number(stage_->loss(*saved_));
  }
  std::vector<std::string> missing;

 private:
  TrainConfig config_;
  const Dataset& data_;
  TensorParallel<double> tensor_;
  ComputeClock clock_;
  std::unique_ptr<Stage<double>> stage_;
  std::unique_ptr<Stage<double>::Saved> saved_;
};

TEST(FineTuning, MetricsAreOfTheClassesWithTheLeastLossesOverAllRows) {
  const Files files;
  const TrainConfig c = config_of(cases[1], files.path());
  const auto alone = world().split(world().rank(), 0);
  const Evaluation evaluation = trainer_of(*alone, c)->evaluate();
  const DataSource data = open_data(c.data, c.text, c.model.seed, c.global_batch, c.vocabulary);
  ASSERT_EQ(data.judged.size(), 2U);
  ASSERT_EQ(evaluation.metrics.size(), 3U);
  EXPECT_EQ(evaluation.metrics[0].name, "dev_matched.accuracy");
  EXPECT_EQ(evaluation.metrics[1].name, "dev_mismatched.loss");
  EXPECT_EQ(evaluation.metrics[2].name, "dev_mismatched.accuracy");
  const double losses[] = {evaluation.loss, evaluation.metrics[1].value}, accuracies[] = {evaluation.metrics[0].value, evaluation.metrics[2].value};
  for (std::size_t k = 0; k < 2; ++k) {
    const JudgedSet& set = data.judged[k];
    OneSample model(c, *set.samples);
    EXPECT_EQ(model.missing, (std::vector<std::string>{"head.classifier.weight", "head.classifier.bias"}));
    double loss = 0, right = 0;
    for (std::int64_t i = 0; i < set.samples->samples(); ++i) {
      std::vector<double> of_class;
      for (std::int32_t label = 0; label < 3; ++label) of_class.push_back(model.loss(i, label));
      const auto wanted = static_cast<std::size_t>(set.wanted[static_cast<std::size_t>(i)]);
      loss += of_class[wanted];
      right += std::min_element(of_class.begin(), of_class.end()) == of_class.begin() + static_cast<std::ptrdiff_t>(wanted);
    }
    const auto rows = static_cast<double>(set.samples->samples());
    EXPECT_NEAR(losses[k], loss / rows, 1e-12) << set.name;
    EXPECT_NEAR(accuracies[k], right / rows, 1e-12) << set.name;
  }
}

TEST(FineTuning, ResumedInsideAnEpochEndsAsIfItHadNotStopped) {
  const Files files;
  TrainConfig c = config_of(cases[0], files.path());
  c.mesh.tp = c.mesh.pp = 2;
  const auto finish = [](ParallelTrainer& trainer) {
    std::vector<double> end = {trainer.validate()};
    for (int s = 0; s < 4; ++s) end.push_back(trainer.step().loss);  // beyond the end of the epoch: 75 rows, 16 a step
    end.push_back(trainer.validate());
    return end;
  };
  const auto straight = trainer_of(world(), c);
  for (int s = 0; s < 3; ++s) (void)straight->step();
  const std::string path = files.path() + "/checkpoint.h5";
  save_checkpoint(world(), *straight, c, path);
  const auto resumed = trainer_of(world(), c);
  load_checkpoint(world(), *resumed, c, path);
  EXPECT_EQ(finish(*resumed), finish(*straight));
  TrainConfig other = c;
  other.data += ",case=kept";
  const auto stranger = trainer_of(world(), other);
  EXPECT_THROW(load_checkpoint(world(), *stranger, other, path), UsageError) << "other data";
}

TEST(FineTuning, APredictionThatIsNoNumberIsADivergenceOnAllRanks) {
  const Files files;
  for (const Case& of : cases) {
    TrainConfig c = config_of(of, files.path());
    c.mesh.tp = c.mesh.pp = 2, c.micro_batch = 2;
    const auto trainer = trainer_of(world(), c);
    for (const StateSlot& slot : trainer->state_slots())
      if (slot.name == "weights" && slot.layout.name() == "head.classifier.bias") std::ranges::fill(slot.value.as<double>(), NAN);
    const std::string message = message_of<Diverged>([&] { (void)trainer->evaluate(); });
    EXPECT_TRUE(message.starts_with(diverged_mark)) << of.task << ": " << message;
    EXPECT_NE(message.find("row 0 of dev"), std::string::npos) << message;
  }
}

TEST(FineTuning, WhatDoesNotFitIsRefusedOnAllRanks) {
  const Files files;
  TrainConfig c = config_of(cases[0], files.path());
  c.mesh.tp = c.mesh.pp = 2;
  TrainConfig other = c;
  other.model.hidden = 24;
  EXPECT_NE(message_of<UsageError>([&] { trainer_of(world(), other); }).find("config.json' has hidden_size = 12"), std::string::npos);
  other = c, other.model.vocab = 22;
  EXPECT_NE(message_of<UsageError>([&] { trainer_of(world(), other); }).find("--vocab 23"), std::string::npos);
  other = c, other.model_kind = "gpt", other.data = "text";
  EXPECT_NE(message_of<UsageError>([&] { trainer_of(world(), other); }).find("--from"), std::string::npos);
  other = c, other.from += "/nowhere";
  EXPECT_NE(message_of<EnvironmentError>([&] { trainer_of(world(), other); }).find("/nowhere/config.json"), std::string::npos);
  // Of one rank: where some of a pipeline's ranks give up, the job ends.
  const auto alone = world().split(world().rank(), 0);
  other = config_of(cases[0], files.path()), other.model_kind = "bert:task=masked";
  EXPECT_THROW(trainer_of(*alone, other)->evaluate(), UsageError) << "it asks for labels of positions, and predicts nothing of a sample";
}

}  // namespace
}  // namespace thinwire
