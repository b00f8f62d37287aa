#include "models/training/evaluation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/nn/device/device_dispatch.h"
#include "models/metrics/metric.h"
#include "models/optimizer/diverged.h"
#include "models/training/step_schedule.h"

namespace thinwire {

template <typename T>
Schedule Evaluator<T>::lowered(const TrainConfig& config) {
  return evaluation_schedule(config);
}

template <typename T>
Evaluation Evaluator<T>::run(const DataSource& data, std::int64_t step) {
  if (data.judged.empty()) return sampled(*data.validation, step);
  Evaluation all = judged(data.judged.front(), step);
  if (data.judged.size() == 1) return all;
  for (Evaluation::Metric& m : all.metrics) m.name = data.judged.front().name + "." + m.name;
  for (std::size_t k = 1; k < data.judged.size(); ++k) {
    const Evaluation one = judged(data.judged[k], step);
    all.metrics.push_back({data.judged[k].name + ".loss", one.loss});
    for (const Evaluation::Metric& m : one.metrics) all.metrics.push_back({data.judged[k].name + "." + m.name, m.value});
  }
  return all;
}

template <typename T>
double Evaluator<T>::share_of_loss(const Dataset& data, std::int64_t rounds, std::int64_t step, double* metrics, std::vector<double>* predicted) {
  const std::int64_t own_samples = config_.micro_batches() * config_.micro_batch;
  // A round counts as much as its global batch weighs, against the first.
  double loss = 0, counted = 0, first_weight = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    loss_.fill_zero();
    const std::vector<Batch> list = replica_batches(config_, at_, data, static_cast<std::uint64_t>(round));
    if (round == 0) first_weight = list.front().global_weight;
    const double counts = list.front().global_weight / first_weight;
    double *own = data_of<double>(loss_), of_round = 0;
    double* said = predicted != nullptr ? predicted->data() + round * config_.global_batch + at_.dp * own_samples : nullptr;
    pipeline_.evaluate(schedule_, static_cast<int>(round), step, list, own, metrics, said);
    copy_and_wait(&of_round, own, sizeof of_round);
    loss += counts * of_round;
    counted += counts;
  }
  nn::check_device_status();
  return speaks() ? loss / (counted * config_.mesh.dp) : 0;
}

template <typename T>
Evaluation Evaluator<T>::sampled(const Dataset& data, std::int64_t step) {
  const std::int64_t rounds = std::max<std::int64_t>(1, (config_.eval_sequences + config_.global_batch - 1) / config_.global_batch);
  const std::vector<std::string> names = last_.metrics();
  measured_.reshape({static_cast<std::int64_t>(2 * names.size())}, DType::f64);
  measured_.fill_zero();
  std::vector<double> sums = {0, share_of_loss(data, rounds, step, names.empty() ? nullptr : data_of<double>(measured_), nullptr)};
  sums.resize(2 + 2 * names.size());
  if (speaks() && !names.empty()) copy_and_wait(sums.data() + 2, measured_.view().data(), measured_.bytes());
  channels_.sum_over_mesh(sums, step);
  if (!std::isfinite(sums[1])) throw Diverged("The validation loss after " + std::to_string(step) + " steps is not finite. Lower the learning rate or lengthen its warm-up.");
  Evaluation evaluation{sums[1], {}};
  for (std::size_t k = 0; k < names.size(); ++k) evaluation.metrics.push_back({names[k], sums[2 + 2 * k] / sums[3 + 2 * k]});
  return evaluation;
}

template <typename T>
Evaluation Evaluator<T>::judged(const JudgedSet& set, std::int64_t step) {
  const std::int64_t rounds = (set.samples->samples() + config_.global_batch - 1) / config_.global_batch;
  std::vector<double> sums(static_cast<std::size_t>(rounds * config_.global_batch));  // a sum of one number and zeros is that number
  const double loss = share_of_loss(*set.samples, rounds, step, nullptr, &sums);
  if (!speaks()) std::fill(sums.begin(), sums.end(), 0.0);
  sums.push_back(loss);
  channels_.sum_over_mesh(sums, step);
  // All ranks see the same predictions, and end alike.
  for (std::size_t row = 0; row < set.wanted.size(); ++row)
    if (!std::isfinite(sums[row]))
      throw Diverged("The prediction for row " + std::to_string(row) + " of " + set.name + " is not finite in the validation after " + std::to_string(step) +
                     " steps. Lower the learning rate or lengthen its warm-up.");
  Evaluation evaluation{sums.back(), {}};
  for (const std::string& name : set.metrics) evaluation.metrics.push_back({name, metric_value(name, {sums.data(), set.wanted.size()}, set.wanted)});
  return evaluation;
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace thinwire
