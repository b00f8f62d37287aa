#include "experiments/claims/sharded_compression/cells/sharded_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/training/config/train_options.h"

namespace thinwire::claims::sharded_compression {

CellRequest training(int ranks, const Settings& settings) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = ranks;
  r.timed = false;
  r.tags = {"sharded_compression"};
  const Settings usual = {{"layers", "4"},      {"hidden", "32"},        {"heads", "4"},        {"seq", "16"},  {"micro-batch", "1"},
                          {"dtype", "f32"},     {"comm-dtype", "f32"},   {"eval-sequences", "8"}, {"steps", "2"}, {"dp", std::to_string(ranks)},
                          {"global-batch", std::to_string(2 * ranks)}};
  for (const auto& [name, value] : usual) r.parameters.set(name, value);
  for (const auto& [name, value] : settings) r.parameters.set(name, value);
  return r;
}

TrainConfig config_of(const CellRequest& request) {
  TrainValues values;
  for (const auto& [name, value] : request.parameters.values()) values[name] = results::to_text(value);
  TrainConfig config = make_train_config(values);
  config.check();
  return config;
}

MatrixElements matrices_of(const TrainConfig& config) {
  const ModelConfig& m = config.model;
  const std::int64_t layer = 12 * m.hidden * m.hidden;  // qkv 3, projection 1, MLP 4 and 4
  return {layer, m.layers * layer, m.max_seq * m.hidden, m.vocab * m.hidden};
}

std::int64_t vector_elements(const TrainConfig& config) {
  const ModelConfig& m = config.model;
  return m.layers * 13 * m.hidden + 2 * m.hidden;  // biases 3 + 1 + 4 + 1, two layernorms of 2; the last layernorm
}

std::int64_t sent(const results::CellRecord& record, const std::string& traffic, std::int64_t step) {
  std::int64_t bytes = 0;
  for (const results::TrainingStepRow& row : record.training.steps)
    if (row.traffic == traffic && row.step == step) bytes += row.link_bytes;
  return bytes;
}

double distance(const results::CellRecord& a, const results::CellRecord& b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto &x = a.training.curve, &y = b.training.curve;
  if (x.empty() || x.size() != y.size()) return infinity;
  double most = 0;
  const auto compare = [&](double one, double other) {
    const double apart = one == other ? 0 : std::abs(one - other) / std::abs(other);
    most = std::isnan(apart) ? infinity : std::max(most, apart);
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    compare(x[i].loss, y[i].loss);
    compare(x[i].grad_norm, y[i].grad_norm);
    if (!std::isnan(x[i].validation_loss) || !std::isnan(y[i].validation_loss)) compare(x[i].validation_loss, y[i].validation_loss);
  }
  return most;
}

}  // namespace thinwire::claims::sharded_compression
