// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019) on gradients that all data-parallel ranks average in every
// step, clipped by one global norm. Works with every parameter store: it updates, and keeps moments for, the parts that the store gives this
// rank. Its settings are those of the training run (--beta1, --beta2, --epsilon, --weight-decay).
#include "models/parallel/gradient/gradient_sync.h"
#include "models/update/policies/adam_parts.h"

namespace thinwire {
namespace {

template <typename T>
class AdamW final : public UpdatePolicy<T> {
 public:
  explicit AdamW(const UpdateContext<T>& c)
      : store_(c.store),
        clock_(c.clock),
        first_stage_(c.mesh.first_stage()),
        sync_(c.config, c.mesh, c.store, c.channels, c.tensor_control, c.clock),
        optimizer_(adam_parts(c), c.config.trainer.adamw) {}

  void begin_step(std::int64_t step) override { sync_.begin_step(step); }
  void expect(int unit) override { sync_.expect(unit); }
  void reduce(int unit, int micro, bool last) override { sync_.unit_done(unit, micro, last); }
  void finish_reduction() override {
    sync_.finish();
    this->waited_us += std::exchange(sync_.waited_us, 0);
  }
  void add_sum_of_squares(double* sum) const override { optimizer_.add_sum_of_squares(sum); }
  void check_finite() const override { optimizer_.check_finite(); }
  void finish_step(const StepContext& step) override {
    clock_.run("optimizer", -1, -1, [&] {
      optimizer_.set_steps_taken(step.step);
      optimizer_.apply(step.learning_rate, step.gradient_scale);
    });
  }

  std::vector<StateSlot> state() override { return moment_slots(store_.parts(), optimizer_, first_stage_); }

 private:
  ParameterStore<T>& store_;
  ComputeClock& clock_;
  bool first_stage_;
  GradientSync<T> sync_;
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
