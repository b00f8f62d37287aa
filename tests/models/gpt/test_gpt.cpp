// labels: unit
// timeout: 180
// The GPT: gradients against finite differences in f64, layer by layer and whole; loss of a fresh model;
// learning beyond what pairs of bytes can tell; reproducibility; refusal of impossible models.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/random.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/gpt/gpt.h"
#include "models/optimizer/optimizer.h"

namespace thinwire {
namespace {

constexpr double gradient_tolerance =
    1e-6;  // relative to the largest gradient of the tensor, central differences in f64

GptConfig small_model(double dropout = 0) {
  GptConfig c;
  c.vocab = 11, c.hidden = 6, c.layers = 2, c.heads = 2, c.max_seq = 7, c.dropout = dropout, c.seed = 3;
  return c;
}

Batch small_batch(std::int64_t batch = 3, std::int64_t seq = 5) {
  Batch b(batch, seq);
  const Random random(9, "tokens");
  for (std::int64_t i = 0; i < batch * seq; ++i) {
    b.ints("tokens").push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i), 11)));
    b.ints("targets").push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i + 1), 11)));
  }
  return b;
}

/// Makes every parameter large enough that no gradient is lost in rounding.
template <typename T>
void shake(const ParameterList<T>& parameters) {
  for (Parameter<T>* p : parameters) {
    const Random random(17, p->name());
    for (std::int64_t i = 0; i < p->elements(); ++i)
      p->w()[i] += static_cast<T>(0.3 * random.normal(static_cast<std::uint64_t>(i)));
  }
}

/// Every element of every parameter: analytic gradient against a central difference of `loss`.
void expect_parameter_gradients(const ParameterList<double>& parameters,
                                const std::function<double()>& loss) {
  constexpr double step = 1e-5;
  for (Parameter<double>* p : parameters) {
    double largest = 1e-12;
    for (std::int64_t i = 0; i < p->elements(); ++i) largest = std::max(largest, std::abs(p->g()[i]));
    for (std::int64_t i = 0; i < p->elements(); ++i) {
      const double kept = p->w()[i];
      p->w()[i] = kept + step;
      const double up = loss();
      p->w()[i] = kept - step;
      const double down = loss();
      p->w()[i] = kept;
      ASSERT_NEAR(p->g()[i], (up - down) / (2 * step), gradient_tolerance * std::max(largest, 1e-3))
          << p->name() << " element " << i;
    }
  }
}

std::vector<double> normal(std::int64_t count, const char* name) {
  std::vector<double> v(static_cast<std::size_t>(count));
  const Random random(23, name);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = random.normal(i);
  return v;
}

double dot(const double* a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void expect_input_gradient(std::vector<double>& x, const std::vector<double>& analytic,
                           const std::function<double()>& loss) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i], step = 1e-5;
    x[i] = kept + step;
    const double up = loss();
    x[i] = kept - step;
    const double down = loss();
    x[i] = kept;
    ASSERT_NEAR(analytic[i], (up - down) / (2 * step), 1e-6) << "input element " << i;
  }
}

/// Text whose pairs of bytes say little but whose words say much: 12 words of 7 letters in random order.
std::string word_text(std::int64_t words) {
  const Random letters(1, "letters"), order(1, "order");
  std::string text;
  for (std::int64_t w = 0; w < words; ++w) {
    const std::uint64_t word = order.below(static_cast<std::uint64_t>(w), 12);
    for (std::uint64_t l = 0; l < 7; ++l) text += static_cast<char>('a' + letters.below(word * 7 + l, 10));
    text += ' ';
  }
  return text;
}

}  // namespace

TEST(LinearLayer, AgreesWithFiniteDifferences) {
  Linear<double> layer(column_parallel("l", 5, 7, 1, 0), 1, 0.5);
  shake<double>({&layer.weight, &layer.bias});
  auto x = normal(4 * 5, "x");
  const auto dy = normal(4 * 7, "dy");
  std::vector<double> y(dy.size()), dx(x.size());
  const auto loss = [&] { return layer.forward(4, x.data(), y.data()), dot(y.data(), dy); };
  layer.backward(4, x.data(), dy.data(), dx.data());
  expect_parameter_gradients({&layer.weight, &layer.bias}, loss);
  expect_input_gradient(x, dx, loss);
}

TEST(LinearLayer, RowParallelPartsSumToTheWholeProduct) {
  constexpr int in = 12, out = 5, rows = 3, ranks = 3;
  Linear<double> whole(row_parallel("l", in, out, 1, 0), 1, 0.5);
  shake<double>({&whole.bias});
  const auto x = normal(rows * in, "x");
  std::vector<double> expected(rows * out), sum(rows * out, 0.0);
  whole.forward(rows, x.data(), expected.data());
  for (int r = 0; r < ranks; ++r) {
    Linear<double> part(row_parallel("l", in, out, ranks, r), 1, 0.5);
    std::vector<double> slice;
    for (int i = 0; i < rows; ++i)
      slice.insert(slice.end(), x.begin() + i * in + r * in / ranks,
                   x.begin() + i * in + (r + 1) * in / ranks);
    std::vector<double> y(rows * out);
    part.partial(rows, slice.data(), y.data());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
  }
  for (int i = 0; i < rows * out; ++i)
    EXPECT_NEAR(sum[static_cast<std::size_t>(i)] + whole.bias.w()[i % out],
                expected[static_cast<std::size_t>(i)], 1e-12);
}

TEST(LayerNormLayer, AgreesWithFiniteDifferencesAndAddsToTheResidualGradient) {
  LayerNorm<double> layer("n", 6, Layout::replicated());
  shake<double>({&layer.gamma, &layer.beta});
  auto x = normal(4 * 6, "x");
  const auto dy = normal(4 * 6, "dy");
  std::vector<double> y(x.size());
  LayerNorm<double>::Saved saved;
  const auto loss = [&] { return layer.forward(4, x.data(), y.data(), saved), dot(y.data(), dy); };
  loss();
  std::vector<double> dx(x.size(), 2.0);
  layer.backward_add(4, x.data(), dy.data(), saved, dx.data());
  for (double& v : dx) v -= 2.0;
  expect_parameter_gradients({&layer.gamma, &layer.beta}, loss);
  expect_input_gradient(x, dx, loss);
}

TEST(TransformerBlock, AgreesWithFiniteDifferencesWithDropout) {
  TensorParallel<double> alone;
  ComputeClock clock;
  Block<double> block(0, {6, 3, 2, 0.2, 5}, {&alone, &clock});
  ParameterList<double> parameters;
  block.collect(parameters);
  shake(parameters);
  const PassContext pass{2, 4, true, 11};
  auto x = normal(pass.rows() * 6, "x");
  const auto dy = normal(pass.rows() * 6, "dy");
  Block<double>::Saved saved;
  Block<double>::Workspace work;
  const auto loss = [&] {
    return block.forward(pass, x.data(), saved, work, nullptr), dot(data_of<double>(saved.output), dy);
  };
  loss();
  std::vector<double> d = dy;
  block.backward(pass, x.data(), saved, work, d.data());
  expect_parameter_gradients(parameters, loss);
  expect_input_gradient(x, d, loss);
}

TEST(TiedHeadLayer, AgreesWithFiniteDifferencesInInputAndTable) {
  constexpr int rows = 4, vocab = 9, hidden = 5;
  TensorParallel<double> alone;
  ComputeClock clock;
  TiedHead<double> head(vocab, hidden, 1, {&alone, &clock});
  const PassContext pass{1, rows};
  Parameter<double> table(ParameterLayout::whole("table", {vocab, hidden}), true);
  shake<double>({&table, &head.norm.gamma, &head.norm.beta});
  auto x = normal(rows * hidden, "x");
  const std::vector<std::int32_t> targets = {0, 8, 3, 3};
  TiedHead<double>::Saved saved;
  Tensor scratch;
  const auto loss = [&] { return head.forward(pass, x.data(), table, targets.data(), 1.0, saved), read_number(saved.loss); };
  loss();
  std::vector<double> dx(x.size());
  head.backward(pass, x.data(), table, saved, scratch, dx.data());
  std::copy_n(data_of<double>(head.table_gradient), table.elements(), table.g());
  expect_parameter_gradients({&table, &head.norm.gamma, &head.norm.beta}, loss);
  expect_input_gradient(x, dx, loss);
}

TEST(GptModel, EveryGradientAgreesWithFiniteDifferences) {
  for (const bool own_head : {false, true})
    for (double dropout : {0.0, 0.25}) {
      GptConfig config = small_model(dropout);
      config.own_head = own_head;
      Gpt<double> model(config);
      EXPECT_EQ(model.tied_table() == nullptr, own_head);
      shake(model.parameters());
      const Batch batch = small_batch();
      Gpt<double>::Activations saved;
      const auto loss = [&] { return model.forward(batch, 4, true, 1.0, saved); };
      model.zero_gradients();
      loss();
      model.backward(batch, saved);
      expect_parameter_gradients(model.parameters(), loss);
    }
}

TEST(GptModel, AFreshModelKnowsNothing) {
  // Logits of a fresh model are Normal(0, hidden * 0.02^2) around 0, so the expected loss is
  // ln(vocab) + hidden * 0.02^2 / 2 (second order): 0.013 above at hidden 64.
  GptConfig c;
  c.hidden = 64, c.layers = 2, c.heads = 4, c.max_seq = 64;
  Gpt<float> model(c);
  Batch batch(8, 64);
  const Random random(31, "fresh");
  for (std::uint64_t i = 0; i < 512; ++i)
    batch.ints("tokens").push_back(static_cast<std::int32_t>(random.below(2 * i, 256))),
        batch.ints("targets").push_back(static_cast<std::int32_t>(random.below(2 * i + 1, 256)));
  Gpt<float>::Activations saved;
  EXPECT_NEAR(model.forward(batch, 0, false, 1.0, saved), std::log(256.0), 0.04);
}

TEST(GptModel, MicroBatchesAddUpToTheWholeBatch) {
  const Batch whole = small_batch(4, 5);
  Gpt<double> model(small_model(0.25));
  shake(model.parameters());
  Gpt<double>::Activations saved;
  const auto gradients = [&] {
    std::vector<double> all;
    for (Parameter<double>* p : model.parameters()) all.insert(all.end(), p->g(), p->g() + p->elements());
    return all;
  };
  const double loss = model.forward(whole, 2, true, 1.0, saved);
  model.backward(whole, saved);
  const auto expected = gradients();
  model.zero_gradients();
  double sum = 0;
  for (std::int64_t first : {0, 1, 2, 3}) {  // dropout masks must follow the sample, not the micro-batch
    Batch micro(1, 5, first);
    for (const char* field : {"tokens", "targets"})
      micro.ints(field) = {whole.ints(field).begin() + 5 * first, whole.ints(field).begin() + 5 * first + 5};
    sum += model.forward(micro, 2, true, 0.25, saved) / 4;
    model.backward(micro, saved);
  }
  EXPECT_NEAR(sum, loss, 1e-12);
  const auto actual = gradients();
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-12);
}

TEST(GptModel, AnObserverSeesWhatIsAddedUpAndChangesNothing) {
  struct Watch : TrafficObserver<double> {
    std::vector<double> first, last;
    int forward = 0, backward = 0, products = 0;
    void row_parallel(const std::string&, std::int64_t, std::int64_t, std::int64_t, const double*,
                      const double*) override {
      ++products;
    }
    void boundary_activation(int, std::int64_t, std::int64_t, const double*) override { ++forward; }
    void boundary_gradient(int, std::int64_t, std::int64_t, const double*) override { ++backward; }
    void embedding_gradient(bool first_use, std::int64_t v, std::int64_t h, const double* g) override {
      (first_use ? first : last).assign(g, g + v * h);
    }
  } watch;
  Gpt<double> model(small_model());
  shake(model.parameters());
  const Batch batch = small_batch();
  Gpt<double>::Activations saved;
  model.forward(batch, 0, true, 1.0, saved);
  model.backward(batch, saved);
  Parameter<double>& table = model.parameter("embedding.token");
  const std::vector<double> plain(table.g(), table.g() + table.elements());
  model.zero_gradients();
  model.forward(batch, 0, true, 1.0, saved, &watch);
  model.backward(batch, saved, &watch);
  EXPECT_EQ(watch.forward, 1);
  EXPECT_EQ(watch.backward, 1);
  EXPECT_EQ(watch.products, 4);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(table.g()[i], plain[i], 1e-14);
    EXPECT_NEAR(watch.first[i] + watch.last[i], plain[i], 1e-14);
  }
}

TEST(GptTraining, ClippingBringsTheGlobalNormToTheBound) {
  Gpt<double> model(small_model());
  shake(model.parameters());
  Optimizer<double> optimizer(model.parameters(), {});
  const Batch batch = small_batch();
  Gpt<double>::Activations saved;
  model.forward(batch, 0, true, 1.0, saved);
  model.backward(batch, saved);
  double squares = 0;
  for (Parameter<double>* p : model.parameters())
    for (std::int64_t i = 0; i < p->elements(); ++i) squares += p->g()[i] * p->g()[i];
  EXPECT_NEAR(optimizer.gradient_norm(), std::sqrt(squares), 1e-12);
  EXPECT_NEAR(optimizer.step(1e-3, 0.1), std::sqrt(squares), 1e-12);
}

TEST(GptTraining, AGradientThatIsNotFiniteIsNamed) {
  Gpt<float> model(small_model());
  Optimizer<float> optimizer(model.parameters(), {});
  model.parameter("layer1.mlp.expand.weight").g()[3] = std::nanf("");
  try {
    optimizer.step(1e-3, 1.0);
    FAIL() << "NaN was accepted";
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("layer1.mlp.expand.weight"), std::string::npos) << e.what();
  }
}

namespace {
double train(Gpt<float>& model, const Corpus& corpus, int steps, std::vector<double>* losses = nullptr) {
  Optimizer<float> optimizer(model.parameters(), {});
  const BatchSampler sampler(corpus.training(), model.config().seed, "train");
  const nn::CosineSchedule schedule{3e-3, 3e-4, 20, steps};
  Gpt<float>::Activations saved;
  double tail = 0;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = sampler.batch(static_cast<std::uint64_t>(step), 0, 8, 48);
    model.zero_gradients();
    const double loss = model.forward(batch, static_cast<std::uint64_t>(step), true, 1.0, saved);
    model.backward(batch, saved);
    optimizer.step(schedule.at(step), 1.0);
    if (losses) losses->push_back(loss);
    if (step >= steps - 10) tail += loss / 10;
  }
  return tail;
}
}  // namespace

TEST(GptTraining, LossFallsFarBelowTheBigramEntropyOfTheText) {
  const Corpus corpus = Corpus::from_text(word_text(20000), "words");
  GptConfig c;
  c.hidden = 64, c.layers = 2, c.heads = 4, c.max_seq = 48, c.seed = 5;
  Gpt<float> model(c);
  // The text's true entropy is ln(12) / 8 = 0.31 nats per byte; a model of pairs stays far above.
  const double loss = train(model, corpus, 400);
  RecordProperty("loss", std::to_string(loss));
  EXPECT_GT(corpus.bigram_entropy(), 1.0);
  EXPECT_LT(loss, 0.7 * corpus.bigram_entropy());
}

TEST(GptTraining, TheSameSeedGivesBitEqualLosses) {
  const Corpus corpus = Corpus::from_text(word_text(500), "words");
  GptConfig c;
  c.hidden = 32, c.layers = 2, c.heads = 2, c.max_seq = 48, c.dropout = 0.1;
  std::vector<double> first, second, other;
  {
    Gpt<float> model(c);
    train(model, corpus, 6, &first);
  }
  {
    Gpt<float> model(c);
    train(model, corpus, 6, &second);
  }
  c.seed = 2;
  {
    Gpt<float> model(c);
    train(model, corpus, 6, &other);
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

TEST(GptModel, ImpossibleModelsAreRefusedNamingTheNumbers) {
  GptConfig c;
  c.hidden = 100, c.heads = 7;
  try {
    Gpt<float> model(c);
    FAIL() << "7 heads were given a hidden size of 100";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("100"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("7"), std::string::npos);
  }
  c = {};
  c.layers = 0;
  EXPECT_THROW(Gpt<float>{c}, UsageError);
  Gpt<double> model(small_model());
  Gpt<double>::Activations saved;
  EXPECT_THROW(model.forward(small_batch(1, 8), 0, true, 1.0, saved), UsageError);
}

}  // namespace thinwire
