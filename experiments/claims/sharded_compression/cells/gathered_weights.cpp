#include "experiments/claims/sharded_compression/cells/gathered_weights.h"

#include <algorithm>

#include "collectives/communicator/cost_terms.h"
#include "core/tensor_names.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/gpt/trainer.h"

namespace thinwire::claims::sharded_compression {
namespace {

constexpr std::int64_t batch_size = 4, seq = 32;
constexpr double learning_rate = 1e-3;

GptConfig sizes() {
  GptConfig c;
  c.vocab = byte_vocabulary, c.hidden = 64, c.layers = 1, c.heads = 4, c.max_seq = seq, c.seed = 7;
  return c;
}

}  // namespace

std::array<Values, 2> TwoRankGather::gather(const WeightMatrix& matrix, std::span<const float> x, std::int64_t step) {
  MessageKey key;
  key.tensor = matrix.id;
  key.step = step;
  std::array<Values, 2> copies = {Values(x.size()), Values(x.size())};
  for (int owner = 0; owner < 2; ++owner) {
    const RowBlock block = shard_rows(matrix.rows, owner, 2);
    const Shape shape{block.count, matrix.columns};
    const auto first = static_cast<std::size_t>(block.first * matrix.columns), count = static_cast<std::size_t>(shape.elements());
    const MessageKey piece = key.with_slice(owner);
    CodecStack& sender = ranks_[static_cast<std::size_t>(owner)];
    Values local(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first + count));
    sender.before_encode(TensorView(local.data(), shape), key);
    std::vector<std::byte> payload(sender.codec->max_payload_bytes(shape));
    payload.resize(sender.codec->encode(ConstTensorView(local.data(), shape), piece, payload));
    for (int rank = 0; rank < 2; ++rank) {
      CodecStack& stack = ranks_[static_cast<std::size_t>(rank)];
      const TensorView target(copies[static_cast<std::size_t>(rank)].data() + first, shape);
      stack.codec->decode(payload, piece, target);
      if (rank == owner) {
        stack.after_encode(ConstTensorView(local.data(), shape), target, key);
        stack.keep_own(target, key);
      } else {
        stack.after_decode(target, piece);
      }
    }
  }
  return copies;
}

void train_with_decoded_weights(std::int64_t steps, const DecodedWeights& decoded) {
  const Corpus corpus = Corpus::open("");
  const BatchSampler batches(corpus.training(), 7, "data.training");
  Gpt<float> model(sizes());
  TrainerOptions options;
  options.schedule = {learning_rate, learning_rate, 0, steps};
  Trainer<float> trainer(model, options);
  std::vector<Parameter<float>*> parameters;
  std::vector<WeightMatrix> matrices;
  for (Parameter<float>* p : model.parameters()) {
    if (!p->decays) continue;  // vectors stay whole
    const auto values = p->value.as<float>();
    parameters.push_back(p);
    matrices.push_back({tensor_id(p->name()), p->shape().rows(), p->shape().columns(), {values.begin(), values.end()}, {values.begin(), values.end()}, Values(values.size())});
  }
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<Values> before;
    for (const Parameter<float>* p : parameters) {
      const auto values = p->value.as<float>();
      before.emplace_back(values.begin(), values.end());
    }
    const Batch batch = batches.batch(static_cast<std::uint64_t>(step - 1), 0, batch_size, seq);
    trainer.step({&batch, 1});
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      WeightMatrix& matrix = matrices[m];
      const auto values = parameters[m]->value.as<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float moved = matrix.main[i] + (values[i] - before[m][i]);
        matrix.update[i] = moved - matrix.main[i];
        matrix.main[i] = moved;
      }
      std::ranges::copy(decoded(m, matrix, step), values.begin());
    }
  }
}

std::string describe_weights_training() {
  const GptConfig c = sizes();
  return "GPT of " + std::to_string(c.layers) + " layer, hidden " + std::to_string(c.hidden) + ", " + std::to_string(batch_size) + " x " + std::to_string(seq) +
         " tokens, AdamW at 0.001; passes compute with the decoded weights, updates go to those in full precision";
}

}  // namespace thinwire::claims::sharded_compression
