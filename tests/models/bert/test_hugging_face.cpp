// labels: mpi
// ranks: 2
// timeout: 120
// Checkpoints of Hugging Face's BERT: what make_hugging_face.py computes from their formulas the model gives, whole and split; what is written can be read again;
// what does not fit is refused.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/bert/hugging_face.h"
#include "models/data/safetensors.h"
#include "tests/models/stage/geometry_oracle.h"
#include "support/source_folder.h"

namespace thinwire {
namespace {

using namespace testing;
using nlohmann::json;

/// A folder of this process that goes with it.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path().string() + "/thinwire-bert-" + std::to_string(getpid()) + "-" + std::to_string(count_++)) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  json read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name);
    return json::parse(file);
  }
  void write(const std::string& name, const json& value) const { std::ofstream(path_ + "/" + name) << value.dump(); }

 private:
  static inline int count_ = 0;
  std::string path_;
};

/// What make_hugging_face.py writes.
struct Checkpoint : Folder {
  explicit Checkpoint(const std::string& options = "") {
    const std::string command = "python3 " + testing::source_folder() + "/tests/models/bert/make_hugging_face.py " + path() + " " + options;
    TW_ASSERT(std::system(command.c_str()) == 0, command);
  }
};

ModelConfig sizes() {
  ModelConfig c;
  c.vocab = 23, c.hidden = 12, c.layers = 2, c.heads = 2, c.max_seq = 8;  // the checkpoint has 10 positions
  return c;
}

struct Model {
  explicit Model(const std::string& options, TensorParallel<double>* group = nullptr, const ModelConfig& c = sizes(), const ModelPart& part = {})
      : config(bert_config(c, options)), stage(make_stage<double>("bert:" + options, c, part, {group ? group : &alone, nullptr, &clock, false})), saved(stage->new_saved()) {}
  std::vector<std::string> load(const std::string& folder) { return load_hugging_face(folder, config, *stage); }
  double loss(const Batch& batch) {
    stage->place({batch.batch, batch.seq, false}, batch, *saved);
    for (std::size_t u = 0; u < stage->units().size(); ++u) stage->forward_unit(u, 1.0, *saved);
    return read_number(stage->loss(*saved));
  }

  TensorParallel<double> alone;
  ComputeClock clock;
  BertConfig config;
  std::unique_ptr<Stage<double>> stage;
  std::unique_ptr<Stage<double>::Saved> saved;
};

/// The sequences of expected.json, padded; one position and the first sample's order are asked.
Batch batch_of(const json& expected, std::size_t sample, std::size_t position, std::int32_t token, std::int32_t order) {
  Batch batch(2, 7);
  std::vector<std::int32_t>&tokens = batch.ints("tokens"), &types = batch.ints("types"), &asked = batch.ints("masked_labels");
  batch.fields["labels"].per_token = false;
  for (std::size_t b = 0; b < 2; ++b) {
    const auto given = expected[b]["tokens"].get<std::vector<std::int32_t>>(), kinds = expected[b]["types"].get<std::vector<std::int32_t>>();
    for (std::size_t t = 0; t < 7; ++t) {
      tokens.push_back(t < given.size() ? given[t] : 5);
      types.push_back(t < given.size() ? kinds[t] : 0);
      asked.push_back(b == sample && t == position ? token : -1);
    }
    batch.lengths.push_back(static_cast<std::int32_t>(given.size()));
    batch.ints("labels").push_back(b == sample ? order : -1);
  }
  batch.weight = batch.global_weight = 1;
  batch.global_samples = 1;
  return batch;
}

double entropy(const std::vector<double>& logits, std::size_t label) {
  double sum = 0;
  for (const double z : logits) sum += std::exp(z);
  return std::log(sum) - logits[label];
}

TEST(HuggingFace, EveryProbabilityIsThatOfTheFormulas) {
  for (const std::string options : {"", "--legacy"}) {
    const Checkpoint checkpoint(options);
    const json expected = checkpoint.read("expected.json");
    TensorRanks ranks(false), tokens_split(true);
    for (TensorParallel<double>* group : {static_cast<TensorParallel<double>*>(nullptr), &ranks.get(), &tokens_split.get()}) {
      Model model("task=masked", group), both("task=pretraining", group);
      EXPECT_TRUE(model.load(checkpoint.path()).empty());
      EXPECT_TRUE(both.load(checkpoint.path()).empty());
      double worst = 0;
      for (std::size_t b = 0; b < 2; ++b) {
        const auto order = expected[b]["order"].get<std::vector<double>>();
        for (std::size_t t = 0; t < expected[b]["tokens"].size(); ++t) {
          const auto logits = expected[b]["predictions"][t].get<std::vector<double>>();
          for (std::int32_t k = 0; k < 23; ++k) {
            const Batch batch = batch_of(expected, b, t, k, k % 2);
            const double masked = entropy(logits, static_cast<std::size_t>(k)), of_order = entropy(order, static_cast<std::size_t>(k % 2));
            worst = std::max(worst, std::abs(model.loss(batch) - masked) / masked);
            worst = std::max(worst, std::abs(both.loss(batch) - masked - of_order) / masked);
          }
        }
      }
      EXPECT_LT(worst, 1e-11) << options << (group ? " split" : " whole");
    }
  }
}

TEST(HuggingFace, WhatIsWrittenIsReadAgainBitByBit) {
  const Checkpoint checkpoint;
  for (const std::string options : {"task=pretraining", "task=masked", "task=classification,classes=3", "task=regression"}) {
    const Folder folder;
    ModelConfig c = sizes();
    c.max_seq = 10, c.seed = 3;
    Model written(options, nullptr, c);
    for (Parameter<double>* p : written.stage->parameters())
      for (std::int64_t i = 0; i < p->elements(); ++i) p->w()[i] = static_cast<float>(p->w()[i] + 1e-3 * static_cast<double>(i % 17));
    save_hugging_face(folder.path(), written.config, *written.stage);
    c.seed = 4;
    Model read(options, nullptr, c);
    EXPECT_TRUE(read.load(folder.path()).empty()) << options;
    for (std::size_t p = 0; p < read.stage->parameters().size(); ++p) {
      const Parameter<double>&a = *written.stage->parameters()[p], &b = *read.stage->parameters()[p];
      for (std::int64_t i = 0; i < a.elements(); ++i) ASSERT_EQ(a.w()[i], b.w()[i]) << options << " " << a.name() << " " << i;
    }
    if (options != "task=pretraining") continue;
    // The same tensors as in theirs, and the sizes.
    const SafetensorsFile ours(folder.path() + "/model.safetensors"), theirs(checkpoint.path() + "/model.safetensors");
    EXPECT_EQ(ours.names(), theirs.names());
    for (const std::string& name : ours.names()) EXPECT_EQ(ours.load(name).values.shape(), theirs.load(name).values.shape()) << name;
    const json mine = folder.read("config.json"), given = checkpoint.read("config.json");
    for (const auto& [key, value] : given.items()) EXPECT_EQ(mine.at(key), value) << key;
  }
}

TEST(HuggingFace, PartsOfAPipelineAndDeferredMatricesGetTheSameValues) {
  const Checkpoint checkpoint;
  Model whole("task=pretraining");
  whole.load(checkpoint.path());
  std::map<std::string, std::vector<double>> values;
  for (const Parameter<double>* p : whole.stage->parameters()) values[p->name()] = {p->w(), p->w() + p->elements()};
  for (const bool deferred : {false, true})
    for (const ModelPart& part : {ModelPart{0, 1, true, false}, ModelPart{1, 1, false, true}}) {
      const DeferredMatrices scope(deferred);
      Model piece("task=pretraining", nullptr, sizes(), part);
      EXPECT_TRUE(piece.load(checkpoint.path()).empty());
      for (const Parameter<double>* p : piece.stage->parameters()) {
        std::vector<double> have(static_cast<std::size_t>(p->elements()));
        if (p->has_value()) {
          have.assign(p->w(), p->w() + p->elements());
        } else {  // as a store of shards does: some rows, then the others
          const std::int64_t columns = p->shape()[1], first = p->shape()[0] / 3;
          p->initialise(p->layout, 0, {have.data(), DType::f64, {first, columns}, Device{}});
          p->initialise(p->layout, first, {have.data() + first * columns, DType::f64, {p->shape()[0] - first, columns}, Device{}});
        }
        EXPECT_EQ(have, values.at(p->name())) << p->name();
      }
    }
}

TEST(HuggingFace, AHeadThatTheCheckpointLacksStaysNewAndIsNamed) {
  const Checkpoint checkpoint;
  Model model("task=classification,classes=3"), fresh("task=classification,classes=3");
  EXPECT_EQ(model.load(checkpoint.path()), (std::vector<std::string>{"head.classifier.weight", "head.classifier.bias"}));
  for (std::size_t p = 0; p < model.stage->parameters().size(); ++p) {
    const Parameter<double>&a = *model.stage->parameters()[p], &b = *fresh.stage->parameters()[p];
    EXPECT_EQ(std::equal(a.w(), a.w() + a.elements(), b.w()), a.name().starts_with("head.classifier")) << a.name();
  }
}

TEST(HuggingFace, RefusesWhatDoesNotFit) {
  const Checkpoint checkpoint;
  const json good = checkpoint.read("config.json");
  const auto refusal = [&](const std::string& options, const ModelConfig& c = sizes()) {
    try {
      Model(options, nullptr, c).load(checkpoint.path());
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("task=masked"), "");
  EXPECT_NE(refusal("norm=pre").find("norm=pre"), std::string::npos);
  EXPECT_NE(refusal("epsilon=1e-5").find("layer_norm_eps"), std::string::npos);
  ModelConfig c = sizes();
  c.max_seq = 11;
  EXPECT_NE(refusal("task=masked", c).find("max_position_embeddings = 10"), std::string::npos);
  c = sizes(), c.vocab = 24;
  EXPECT_NE(refusal("task=masked", c).find("vocab_size = 23"), std::string::npos);
  for (const auto& [key, value] : {std::pair<std::string, json>{"hidden_act", "relu"}, {"intermediate_size", 24}, {"model_type", "roberta"}, {"num_attention_heads", 4}}) {
    json wrong = good;
    wrong[key] = value;
    checkpoint.write("config.json", wrong);
    EXPECT_NE(refusal("task=masked").find(key), std::string::npos) << key;
  }
  // Sizes that the file does not keep.
  json wrong = good;
  wrong["vocab_size"] = 24;
  checkpoint.write("config.json", wrong);
  EXPECT_NE(refusal("task=masked", c).find("embedding.token"), std::string::npos);
  wrong = good, wrong["num_hidden_layers"] = 3;
  checkpoint.write("config.json", wrong);
  c = sizes(), c.layers = 3;
  EXPECT_NE(refusal("task=masked", c).find("encoder.layer.2"), std::string::npos);
}

}  // namespace
}  // namespace thinwire
