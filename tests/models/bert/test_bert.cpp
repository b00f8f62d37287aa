// labels: unit
// BERT on one rank: losses against a reference written from the formulas, gradients against finite differences, padding, training.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/optimizer/optimizer.h"
#include "tests/models/bert/bert_cases.h"
#include "tests/models/bert/bert_reference.h"

namespace thinwire {
namespace {

using namespace testing;

ModelConfig sizes() {
  ModelConfig c;
  c.vocab = masked_text_vocabulary, c.hidden = 12, c.layers = 2, c.heads = 3, c.max_seq = 14, c.seed = 9;
  return c;
}

/// A whole model on one rank, its biases, scales and shifts moved away from 0 and 1.
struct Model {
  explicit Model(const std::string& options, const ModelConfig& c = sizes(), bool recompute = false)
      : config(bert_config(c, options)), stage(make_stage<double>("bert:" + options, c, {}, {&tensor, nullptr, &clock, recompute})), saved(stage->new_saved()) {
    const Random random(1, "offsets");
    std::uint64_t n = 0;
    for (Parameter<double>* p : stage->parameters())
      for (std::int64_t i = 0; i < p->elements(); ++i) p->w()[i] = (p->decays ? 8 : 1) * p->w()[i] + 0.2 * random.normal(n++);
  }
  double forward(const Batch& batch, const PassContext& pass) {
    stage->place(pass, batch, *saved);
    for (std::size_t u = 0; u < stage->units().size(); ++u) stage->forward_unit(u, 1.0, *saved);
    return read_number(stage->loss(*saved));
  }
  double forward(const Batch& batch) { return forward(batch, {batch.batch, batch.seq, false}); }
  void backward() {
    stage->zero_gradients();
    for (std::size_t u = stage->units().size(); u-- > 0;) stage->backward_unit(u, *saved, gradient);
  }

  TensorParallel<double> tensor;
  ComputeClock clock;
  BertConfig config;
  std::unique_ptr<Stage<double>> stage;
  std::unique_ptr<Stage<double>::Saved> saved;
  Tensor gradient;
};

TEST(Bert, LossIsThatOfTheFormulas) {
  for (const auto& [options, task] : bert_cases) {
    Model model(options);
    const DataSource data = bert_samples(task);
    for (const std::uint64_t step : {0, 1, 2}) {
      const Batch batch = whole_batch(*data.training, step, 6, 13);
      const double expected = BertReference(model.config, *model.stage).loss(batch);
      EXPECT_NEAR(model.forward(batch), expected, 1e-11 * expected) << options << " step " << step;
    }
  }
}

TEST(Bert, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [options, task] : bert_cases)
    for (const double dropout : {0.0, 0.3}) {
      ModelConfig c = sizes();
      c.dropout = dropout;
      Model model(options, c, dropout > 0);
      const Batch batch = whole_batch(*bert_samples(task).training, 0, 4, 11);
      const PassContext pass{4, 11, true, 3};
      model.forward(batch, pass);
      model.backward();
      for (Parameter<double>* p : model.stage->parameters()) {
        double largest = 0;
        for (std::int64_t i = 0; i < p->elements(); ++i) largest = std::max(largest, std::abs(p->g()[i]));
        if (p->name() != "head.bias") {
          EXPECT_GT(largest, 1e-9) << options << " " << p->name() << ": a parameter that does nothing";
        }
        for (std::int64_t i = 0; i < p->elements(); i += 1 + p->elements() / 9) {
          const double kept = p->w()[i], step = 1e-5;
          p->w()[i] = kept + step;
          const double above = model.forward(batch, pass);
          p->w()[i] = kept - step;
          const double below = model.forward(batch, pass);
          p->w()[i] = kept;
          EXPECT_NEAR(p->g()[i], (above - below) / (2 * step), 1e-6 * std::max(largest, 1e-2)) << options << " dropout " << dropout << " " << p->name() << " " << i;
        }
      }
    }
}

TEST(Bert, NothingDependsOnWhatStandsInThePadding) {
  for (const auto& [options, task] : bert_cases) {
    Model model(options);
    Batch batch = whole_batch(*bert_samples(task).training, 0, 8, 14);
    const double loss = model.forward(batch);
    model.backward();
    std::vector<double> gradients;
    for (Parameter<double>* p : model.stage->parameters()) gradients.insert(gradients.end(), p->g(), p->g() + p->elements());
    std::int64_t padding = 0;
    for (std::int64_t b = 0; b < batch.batch; ++b)
      for (std::int64_t t = batch.lengths[static_cast<std::size_t>(b)]; t < batch.seq; ++t, ++padding) {
        batch.ints("tokens")[static_cast<std::size_t>(b * batch.seq + t)] = static_cast<std::int32_t>(7 + t);
        batch.ints("types")[static_cast<std::size_t>(b * batch.seq + t)] = 1;
      }
    ASSERT_GT(padding, 0);
    EXPECT_EQ(model.forward(batch), loss) << options;
    model.backward();
    std::size_t n = 0;
    for (Parameter<double>* p : model.stage->parameters())
      for (std::int64_t i = 0; i < p->elements(); ++i) ASSERT_EQ(p->g()[i], gradients[n++]) << options << " " << p->name() << " " << i;
    std::fill(batch.lengths.begin(), batch.lengths.end(), static_cast<std::int32_t>(batch.seq));
    EXPECT_NE(model.forward(batch), loss) << options << ": lengths are read";
  }
}

TEST(Bert, EveryTokenSeesThoseBehindIt) {
  Model model("task=classification,classes=3");
  Batch batch = whole_batch(*bert_samples(BertTask::classification).training, 1, 1, 9);
  batch.lengths = {9};
  const double loss = model.forward(batch);
  batch.ints("tokens")[8] ^= 1;
  EXPECT_NE(model.forward(batch), loss) << "the head reads the first position, which must have seen the last";
}

TEST(Bert, ABatchWithoutLabelsCountsNothing) {
  for (const BertCase& c : {bert_cases[0], bert_cases[4]}) {
    Model model(c.options);
    Batch batch = whole_batch(*bert_samples(c.task).training, 0, 2, 9);
    for (const char* field : {"masked_labels", "labels"}) std::fill(batch.ints(field).begin(), batch.ints(field).end(), -1);
    batch.weight = 0;
    EXPECT_EQ(model.forward(batch), 0) << c.options;
    model.backward();
    for (Parameter<double>* p : model.stage->parameters())
      for (std::int64_t i = 0; i < p->elements(); ++i) ASSERT_EQ(p->g()[i], 0) << c.options << " " << p->name();
  }
}

TEST(Bert, ThePretrainingLossAddsMeansOverPositionsAndOverSamplesOfTheWholeBatch) {
  Model model("task=pretraining");
  const DataSource data = bert_samples(BertTask::pretraining);
  const Batch whole = whole_batch(*data.training, 0, 6, 13);
  const double expected = model.forward(whole);
  double sum = 0;
  std::set<double> weights;
  for (int m = 0; m < 6; ++m) {
    Batch part = data.training->batch(0, m, 1, 13);
    part.global_weight = whole.global_weight, part.global_samples = 6;
    weights.insert(part.weight);
    sum += part.weight / part.global_weight * model.forward(part);
  }
  EXPECT_GT(weights.size(), 1U) << "micro-batches of equal weight prove little";
  EXPECT_NEAR(sum, expected, 1e-12);
}

TEST(Bert, LearnsEveryTask) {
  for (const auto& [options, task] : bert_cases) {
    ModelConfig c = sizes();
    c.hidden = 24;
    TensorParallel<double> tensor;
    ComputeClock clock;
    const auto stage = make_stage<double>(std::string("bert:") + options, c, {}, {&tensor, nullptr, &clock, false});
    const auto saved = stage->new_saved();
    Optimizer<double> optimizer(stage->parameters(), {});
    const DataSource data = bert_samples(task);
    Tensor gradient;
    double first = 0, last = 0;
    for (std::uint64_t step = 0; step < 120; ++step) {
      const Batch batch = whole_batch(*data.training, step, 16, 14);
      stage->place({16, 14, true, step}, batch, *saved);
      for (std::size_t u = 0; u < stage->units().size(); ++u) stage->forward_unit(u, 1.0, *saved);
      const double loss = read_number(stage->loss(*saved));
      (step < 20 ? first : last) += step < 20 || step >= 100 ? loss / 20 : 0;
      stage->zero_gradients();
      for (std::size_t u = stage->units().size(); u-- > 0;) stage->backward_unit(u, *saved, gradient);
      optimizer.step(3e-3, 1.0);
    }
    std::printf("%-60s %.3f -> %.3f\n", options, first, last);
    EXPECT_LT(last, 0.9 * first) << options;
  }
}

TEST(Bert, MaskedAccuracyIsOfTheTokensWithTheLeastLosses) {
  for (const char* options : {"task=masked", "task=pretraining"}) {
    Model model(options);
    const DataSource data = bert_samples(BertTask::masked);
    Batch batch = whole_batch(*data.training, 0, 3, 13);
    PassContext pass{3, 13, false};
    pass.why = Pass::evaluate;
    (void)model.forward(batch, pass);
    ASSERT_EQ(model.stage->metrics()[0], "masked_accuracy");
    const double* measured = data_of<double>(model.stage->measured(*model.saved));
    const double right = measured[0], asked = measured[1];
    const std::vector<std::int32_t> wanted = batch.ints("masked_labels");
    EXPECT_EQ(asked, wanted.size() - static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), -1)));
    double expected = 0;
    batch.weight = batch.global_weight = 1;
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      if (wanted[at] == -1) continue;
      std::vector<double> losses;
      for (std::int32_t token = 0; token < masked_text_vocabulary; ++token) {
        batch.ints("masked_labels").assign(wanted.size(), -1);
        batch.ints("masked_labels")[at] = token;
        losses.push_back(model.forward(batch));
      }
      expected += std::min_element(losses.begin(), losses.end()) == losses.begin() + wanted[at];
    }
    EXPECT_EQ(right, expected) << options;
    // Labels that are what the model says are all right.
    const auto likeliest = [&](std::size_t at) {
      std::pair<double, std::int32_t> least{INFINITY, 0};
      for (std::int32_t token = 0; token < masked_text_vocabulary; ++token) {
        batch.ints("masked_labels").assign(wanted.size(), -1);
        batch.ints("masked_labels")[at] = token;
        least = std::min(least, {model.forward(batch), token});
      }
      return least.second;
    };
    const std::int32_t said = likeliest(2);
    batch.ints("masked_labels").assign(wanted.size(), -1);
    batch.ints("masked_labels")[2] = said;
    (void)model.forward(batch, pass);
    EXPECT_EQ(data_of<double>(model.stage->measured(*model.saved))[0], 1) << options;
  }
}

TEST(Bert, SamplesWithoutALabelWeighNothing) {
  for (const auto& [options, task] : {std::pair{"task=regression", BertTask::regression}, {"task=classification,classes=3", BertTask::classification}}) {
    const DataSource data = bert_samples(task);
    const auto with = [&](std::int64_t count) {
      Batch batch = whole_batch(*data.training, 0, count, 9);
      if (task == BertTask::classification) {
        batch.ints("labels") = {0, 2, 1};
        batch.ints("labels").resize(static_cast<std::size_t>(count), -1);
      } else {
        auto& numbers = std::get<std::vector<float>>(batch.fields["labels"].values);
        std::fill(numbers.begin() + 3, numbers.end(), NAN);
      }
      batch.weight = batch.global_weight = 3;
      return batch;
    };
    const Batch whole = with(5), labelled = with(3);  // a saved pass refers to its batch until it has gone back
    Model three(options), five(options);
    EXPECT_NEAR(five.forward(whole), three.forward(labelled), 1e-13) << options;
    EXPECT_EQ(five.stage->predicted(*five.saved).size(), 5U);
    for (std::size_t b = 0; b < 3; ++b) EXPECT_NEAR(five.stage->predicted(*five.saved)[b], three.stage->predicted(*three.saved)[b], 1e-13) << options;
    three.backward(), five.backward();
    for (std::size_t p = 0; p < three.stage->parameters().size(); ++p) {
      const Parameter<double>&a = *three.stage->parameters()[p], &b = *five.stage->parameters()[p];
      for (std::int64_t i = 0; i < a.elements(); ++i) ASSERT_NEAR(b.g()[i], a.g()[i], 1e-12 * std::max(1.0, std::abs(a.g()[i]))) << options << " " << a.name();
    }
  }
}

TEST(Bert, ALogitThatIsNoNumberPredictsNoClass) {
  Model model("task=classification,classes=3");
  const Batch batch = whole_batch(*bert_samples(BertTask::classification).training, 0, 4, 9);
  model.forward(batch);
  for (const double said : model.stage->predicted(*model.saved)) EXPECT_TRUE(std::isfinite(said));
  for (Parameter<double>* p : model.stage->parameters())
    if (p->name() == "head.classifier.bias") p->w()[1] = NAN;  // the largest of the three is then whatever stands first
  EXPECT_TRUE(std::isnan(model.forward(batch)));
  for (const double said : model.stage->predicted(*model.saved)) EXPECT_TRUE(std::isnan(said));
}

// By these names a codec that is trained with the model has weights for each sum over tensor ranks.
TEST(Bert, NamesTheSumsOfItsLayersAndOfNothingElse) {
  Model model("task=pretraining");
  for (const Unit<double>& unit : model.stage->units()) {
    const bool is_layer = unit.layer >= 0 && unit.layer < sizes().layers;
    EXPECT_EQ(unit.summed, is_layer ? (std::vector<std::string>{unit.name + ".attention.projection", unit.name + ".mlp.projection"}) : std::vector<std::string>{}) << unit.name;
  }
}

TEST(Bert, RefusesWhatItCannot) {
  TensorParallel<double> tensor;
  ComputeClock clock;
  const auto make = [&](const std::string& model) { return make_stage<double>(model, sizes(), {}, {&tensor, nullptr, &clock, false}); };
  EXPECT_THROW(make("bert:task=translation"), UsageError);
  EXPECT_THROW(make("bert:layers=3"), UsageError);
  EXPECT_THROW(make("bert:classes=1"), UsageError);
  Model model("task=pretraining");
  const DataSource data = bert_samples(BertTask::pretraining);
  const Batch good = whole_batch(*data.training, 0, 2, 9);
  EXPECT_THROW(model.forward(good, {2, 15, false}), UsageError) << "more tokens than positions";
  Batch batch = good;
  batch.lengths = {9};
  EXPECT_THROW(model.forward(batch), CorruptData);
  batch = good, batch.weight += 1;
  EXPECT_THROW(model.forward(batch), CorruptData) << "a weight that is not the number of labels";
  batch = good, batch.global_samples = 0;
  EXPECT_THROW(model.forward(batch), CorruptData);
  batch = good, batch.ints("labels")[0] = 2;
  EXPECT_THROW(model.forward(batch), CorruptData);
  batch = good, batch.ints("types")[0] = 2;
  EXPECT_THROW(model.forward(batch), CorruptData);
  batch = good, batch.fields.erase("types");
  EXPECT_THROW(model.forward(batch), UsageError);
}

}  // namespace
}  // namespace thinwire
