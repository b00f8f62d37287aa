#include "models/gpt/trainer.h"

#include <cmath>

#include "core/clock.h"
#include "kernels/nn/elementwise.h"
#include "models/optimizer/diverged.h"

namespace thinwire {

template <typename T>
StepReport Trainer<T>::step(std::span<const Batch> micro_batches,
                            const std::function<TrafficObserver<T>*(int)>& observer_of,
                            const AfterMicroBatch& after) {
  return naming_divergence([&] { return take_step(micro_batches, observer_of, after); }, ". Seen at step " + std::to_string(steps_taken()) + ".");
}

template <typename T>
StepReport Trainer<T>::take_step(std::span<const Batch> micro_batches,
                                 const std::function<TrafficObserver<T>*(int)>& observer_of,
                                 const AfterMicroBatch& after) {
  TW_ASSERT(!micro_batches.empty());
  const Stopwatch watch;
  const std::int64_t number = optimizer_.steps_taken();
  const ParameterList<T>& parameters = model_.parameters();
  const double share = 1.0 / static_cast<double>(micro_batches.size());
  // Who wants to see each micro-batch's own gradient makes it be summed elsewhere.
  const bool apart = after && micro_batches.size() > 1;
  if (apart && total_.empty())
    for (Parameter<T>* p : parameters) total_.emplace_back(p->value.shape(), dtype_of<T>);
  if (apart)
    for (Tensor& t : total_) t.fill_zero();

  StepReport report;
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    const Batch& batch = micro_batches[m];
    TrafficObserver<T>* observer = observer_of ? observer_of(static_cast<int>(m)) : nullptr;
    if (m == 0 || apart) model_.zero_gradients();
    const double loss =
        model_.forward(batch, static_cast<std::uint64_t>(number), true, apart ? 1.0 : share, saved_, observer);
    if (!std::isfinite(loss))
      throw Diverged("The loss is not finite at step " + std::to_string(number) +
                           ". Lower the learning rate or lengthen its warm-up.");
    model_.backward(batch, saved_, observer);
    if (apart) model_.join_table_gradients();
    if (after) after(static_cast<int>(m));
    if (apart)
      for (std::size_t i = 0; i < parameters.size(); ++i)
        nn::add_into<T>(parameters[i]->elements(), parameters[i]->g(), data_of<T>(total_[i]));
    report.loss += share * loss;
    report.tokens += batch.batch * batch.seq;
  }
  if (apart)
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      nn::scale_in_place<T>(parameters[i]->elements(), static_cast<T>(share), data_of<T>(total_[i]));
      copy_bytes(parameters[i]->g(), data_of<T>(total_[i]), total_[i].bytes());
    }
  model_.join_table_gradients();
  report.learning_rate = options_.schedule.at(number);
  report.gradient_norm = optimizer_.step(report.learning_rate, options_.max_norm);
  report.seconds = watch.seconds();
  return report;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace thinwire
