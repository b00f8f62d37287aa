// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019) on gradients that all data-parallel ranks average in every
// step, clipped by one global norm. Works with every parameter store: it updates, and keeps moments for, the parts that the store gives this
// rank. Its settings are those of the training run (--beta1, --beta2, --epsilon, --weight-decay).
#include "models/update/policies/every_step.h"

namespace thinwire {
namespace {

template <typename T>
class AdamW final : public EveryStep<T> {
 public:
  explicit AdamW(const UpdateContext<T>& c)
      : EveryStep<T>(c),
        store_(c.store),
        optimizer_(adam_parts(c), c.config.trainer.adamw) {}

  void add_sum_of_squares(double* sum) const override { optimizer_.add_sum_of_squares(sum); }
  void check_finite() const override { optimizer_.check_finite(); }
  void finish_step(const StepContext& step) override {
    this->clock_.run("optimizer", -1, -1, [&] {
      optimizer_.set_steps_taken(step.step, this->moments_begin_);
      optimizer_.apply(step.learning_rate, step.gradient_scale);
    });
  }

  std::vector<StateSlot> state() override { return moment_slots(store_.parts(), optimizer_, this->first_stage_); }

 private:
  ParameterStore<T>& store_;
  Optimizer<T> optimizer_;
};

const bool registered = register_update<AdamW>({.name = "adamw",
                                                .summary = "AdamW on gradients that are averaged in every step",
                                                .source = "Loshchilov and Hutter, ICLR 2019",
                                                .within_replica = true,
                                                .state_per_element = 2,
                                                .classes = gradient_classes,
                                                .channels = gradient_channels});

}  // namespace
}  // namespace thinwire
