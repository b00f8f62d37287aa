// labels: mpi, parity
// ranks: 4
// timeout: 300
// A model and data that the trainer has never heard of: a bidirectional classifier over padded sequences, some of them without a label, so that
// micro-batches weigh differently. Its gradients are right, and loss, norm, validation and accuracy do not depend on the factoring.
#include <cmath>
#include <set>

#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/fixtures/models/classifier/classifier.h"

namespace thinwire {
namespace {

using namespace testing;

TrainConfig classifier_config() {
  TrainConfig c;
  c.model_kind = "classifier", c.data = "labelled_sequences";
  c.model.vocab = LabelledSequences::vocab, c.model.hidden = 12, c.model.layers = 4, c.model.heads = 3, c.model.max_seq = 7, c.model.seed = 4;
  c.global_batch = 8, c.micro_batch = 8, c.seq = 7, c.steps = 12, c.eval_sequences = 40;
  c.trainer.schedule = {1e-2, 1e-3, 2, 12};
  c.trainer.max_norm = 0.5;
  c.dtype = DType::f64;
  return c;
}

struct Curve {
  std::vector<double> numbers;  ///< losses and norms of the steps, validation loss, accuracy
  double accuracy = 0;
};

Curve train(Communicator& group, const TrainConfig& c) {
  const auto trainer = ParallelTrainer::make(group, c, open_data(c.data, c.text, c.model.seed, c.global_batch));
  Curve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    curve.numbers.insert(curve.numbers.end(), {record.loss, record.gradient_norm});
  }
  const Evaluation evaluation = trainer->evaluate();
  EXPECT_EQ(evaluation.metrics.size(), 1U);
  EXPECT_EQ(evaluation.metrics.front().name, "accuracy");
  curve.accuracy = evaluation.metrics.front().value;
  curve.numbers.insert(curve.numbers.end(), {evaluation.loss, curve.accuracy});
  return curve;
}

TEST(Classifier, EveryFactoringFollowsOneRankInDoublePrecision) {
  const auto alone = world().split(world().rank(), 0);
  const Curve reference = train(*alone, classifier_config());
  EXPECT_LT(reference.numbers[22], reference.numbers[0]) << "a reference that does not learn proves little";
  for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{1, 1, 4}, MeshShape{1, 2, 2}})
    for (const int micro : {1, 2})
      for (const bool overlap : {true, false}) {
        TrainConfig c = classifier_config();
        c.mesh = mesh, c.micro_batch = micro, c.overlap = overlap;
        c.bucket_cap_mb = 0.001;
        const Curve curve = train(world(), c);
        for (std::size_t i = 0; i < curve.numbers.size(); ++i)
          ASSERT_NEAR(curve.numbers[i], reference.numbers[i], 1e-10 * std::abs(reference.numbers[i])) << "pp " << mesh.pp << " dp " << mesh.dp << " micro " << micro << " number " << i;
      }
}

TEST(Classifier, LearnsItsClasses) {
  TrainConfig c = classifier_config();
  c.steps = 60;
  c.trainer.schedule = {1e-2, 1e-3, 2, 60};
  const auto alone = world().split(world().rank(), 0);
  EXPECT_GT(train(*alone, c).accuracy, 0.5);  // a third by chance
}

TEST(Classifier, MicroBatchesWeighWhatIsLabelledInThem) {
  const DataSource data = open_data("labelled_sequences", "", 4, 8);
  std::set<double> weights;
  double sum = 0;
  for (int m = 0; m < 4; ++m) {
    const Batch batch = data.training->batch(0, 2 * m, 2, 7);
    weights.insert(batch.weight);
    sum += batch.weight;
  }
  EXPECT_GT(weights.size(), 1U) << "micro-batches of equal weight prove little";
  EXPECT_EQ(sum, data.training->weight(0, 8, 7));
  EXPECT_EQ(data.training->batch(5, 0, 1, 7).sample_ids, data.training->batch(0, 0, 1, 7).sample_ids) << "20 samples: step 5 begins the third epoch";
  EXPECT_EQ(epoch_of(*data.training, 5, 8), 2);
}

TEST(Classifier, GradientsAreThoseOfFiniteDifferences) {
  const TrainConfig c = classifier_config();
  TensorParallel<double> tensor;
  ComputeClock clock;
  const auto stage = make_stage<double>("classifier", c.model, {}, {&tensor, nullptr, &clock, false});
  const Batch batch = open_data(c.data, "", 4, 4).training->batch(0, 0, 4, 5);
  const auto saved = stage->new_saved();
  const auto loss = [&] {
    stage->place({4, 5}, batch, *saved);
    for (std::size_t u = 0; u < stage->units().size(); ++u) stage->forward_unit(u, 1.0, *saved);
    return read_number(stage->loss(*saved));
  };
  loss();
  stage->zero_gradients();
  Tensor gradient;
  for (std::size_t u = stage->units().size(); u-- > 0;) stage->backward_unit(u, *saved, gradient);
  for (Parameter<double>* p : stage->parameters()) {
    double largest = 0;
    for (std::int64_t i = 0; i < p->elements(); ++i) largest = std::max(largest, std::abs(p->g()[i]));
    for (std::int64_t i = 0; i < p->elements(); i += 1 + p->elements() / 7) {
      const double kept = p->w()[i], step = 1e-5;
      p->w()[i] = kept + step;
      const double above = loss();
      p->w()[i] = kept - step;
      const double below = loss();
      p->w()[i] = kept;
      EXPECT_NEAR(p->g()[i], (above - below) / (2 * step), 1e-6 * std::max(largest, 1e-3)) << p->name() << " " << i;
    }
  }
}

TEST(Classifier, IsRefusedWhatItCannot) {
  TrainConfig c = classifier_config();
  c.mesh.tp = 4;
  c.model.heads = 4;
  EXPECT_THROW(train(world(), c), UsageError);
  c = classifier_config();
  c.model_kind = "clasifier";
  const auto alone = world().split(world().rank(), 0);
  EXPECT_THROW(train(*alone, c), UsageError);
}

}  // namespace
}  // namespace thinwire
