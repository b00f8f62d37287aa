// 1-bit Adam (Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed", ICML 2021). For the first `freeze` steps it
// is AdamW on mean gradients. Then the variance v stays as it is, and replicas exchange momentum instead of gradients:
//   m_r = beta1 m + (1 - beta1) g_r with the replica's own gradient,   m = mean over r of m_r as the exchange decodes it,
//   w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^freeze)) + epsilon) + decay w).
// With a dense exchange that is Adam with a frozen variance, since the mean of momentums is the momentum of the mean. What compresses it is a rule of class
// `optimizer`; the paper's is sign:scale=l2+ef by protocol two_shot, whose two residuals are its worker's and server's error. Bias is corrected, where
// DeepSpeed's code leaves it out. Nothing is clipped after the freeze: no rank knows the norm of the mean gradient then; what is recorded is the root mean square of the
// replicas' norms.
#include "core/clock.h"
#include "core/tensor_names.h"
#include "kernels/nn/sums.h"
#include "models/update/policies/every_step.h"

namespace thinwire {
namespace {

constexpr const char* exchange_name = "momentum";

template <typename T>
class OnebitAdam final : public EveryStep<T> {
 public:
  explicit OnebitAdam(const UpdateContext<T>& c)
      : EveryStep<T>(c),
        store_(c.store),
        adamw_(c.config.trainer.adamw),
        replicas_(c.config.mesh.dp),
        stage_(c.mesh.coordinates().pp),
        freeze_(c.options.integer("freeze")),
        exchange_(find_channel(c.channels, exchange_name)),
        optimizer_(adam_parts(c), adamw_) {}

  void reduce(int unit, int micro, bool last) override {
    if (!frozen()) EveryStep<T>::reduce(unit, micro, last);
  }
  void finish_reduction() override {
    if (!frozen()) EveryStep<T>::finish_reduction();
  }
  NormScope clip_scope() const override { return frozen() ? NormScope::none : NormScope::all; }
  void add_sum_of_squares(double* sum) const override {
    if (!frozen()) return optimizer_.add_sum_of_squares(sum);
    double* squares = shaped<double>(own_squares_, {1});
    own_squares_.fill_zero();
    for (const OwnedPart<T>& part : store_.parts())
      if (part.parameter->layout.counts_in_norm()) nn::add_sum_of_squares<T>(part.gradient.elements(), static_cast<const T*>(part.gradient.data()), squares);
    nn::add_total<double, double>(1, squares, 1.0, replicas_, sum);
  }
  void check_finite() const override { optimizer_.check_finite(); }

  void finish_step(const StepContext& step) override {
    if (!frozen()) {
      this->clock_.run("optimizer", -1, -1, [&] {
        optimizer_.set_steps_taken(step.step);
        optimizer_.apply(step.learning_rate, step.gradient_scale);
      });
      return;
    }
    const auto& parts = store_.parts();
    this->clock_.run("momentum", -1, -1, [&] {
      for (std::size_t i = 0; i < parts.size(); ++i)
        nn::momentum_step<T>(adamw_.beta1, parts[i].gradient.elements(), static_cast<const T*>(parts[i].gradient.data()), data_of<T>(optimizer_.first_moment(i)));
    });
    exchange();
    this->clock_.run("optimizer", -1, -1, [&] {
      for (std::size_t i = 0; i < parts.size(); ++i)
        nn::apply_moments<T>(adamw_, parts[i].parameter->decays ? adamw_.weight_decay : 0.0, step.learning_rate, step.step + 1, freeze_, parts[i].weights.elements(),
                             data_of<T>(optimizer_.first_moment(i)), data_of<T>(optimizer_.second_moment(i)), static_cast<T*>(parts[i].weights.data()));
    });
  }

  std::vector<StateSlot> state() override { return moment_slots(store_.parts(), optimizer_, true); }

 private:
  bool frozen() const { return this->step_ >= freeze_; }

  void exchange() {
    if (!exchange_) return;
    const auto& parts = store_.parts();
    std::vector<Operation> sums;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Parameter<T>& p = *parts[i].parameter;
      MessageKey key;
      key.tensor = tensor_id("momentum " + p.name());
      key.step = this->step_;
      Channel& channel = is_matrix(p) ? exchange_->at(parts[i].unit, stage_, key) : exchange_->dense();
      const TensorView m = optimizer_.first_moment(i).view();
      sums.push_back(channel.all_reduce(m, m, key));
    }
    const std::int64_t begin = now_ns();
    for (Operation& sum : sums) sum.wait();
    this->waited_us += static_cast<double>(now_ns() - begin) * 1e-3;
  }

  ParameterStore<T>& store_;
  nn::AdamW adamw_;
  double replicas_;
  int stage_;
  std::int64_t freeze_;
  ChannelPair* exchange_;
  Optimizer<T> optimizer_;
  mutable Tensor own_squares_;
};

std::set<TrafficClass> classes(const TrainConfig& config) {
  std::set<TrafficClass> sent = gradient_classes(config);
  sent.insert(TrafficClass::optimizer);
  return sent;
}

std::vector<ChannelSpec> channels(const TrainConfig& config, ProcessMesh& mesh) {
  std::vector<ChannelSpec> specs = gradient_channels(config, mesh);
  specs.push_back({.name = exchange_name, .traffic = TrafficClass::optimizer, .group = "within_replica", .average = true});
  return specs;
}

void check(const TrainConfig& c) {
  const auto refuse = [](const std::string& what, const std::string& why) { throw UsageError(what + " does not go with --optimizer onebit_adam: " + why); };
  if (c.zero_stage > 0)
    refuse("--zero-stage " + std::to_string(c.zero_stage), "every replica adds its own gradient to the whole momentum; use --zero-stage 0");
  if (c.mesh.pp > 1) refuse("--pp " + std::to_string(c.mesh.pp), "the tied table's gradient is summed over stages, its momentum over replicas; use --pp 1");
  if (c.sequence_parallel && c.mesh.tp > 1) refuse("--sequence-parallel true", "gradients of tensor replicas are summed together with those of data replicas; leave it out");
  require_host(c, "onebit_adam", "");
}

const bool registered = register_update<OnebitAdam>({.name = "onebit_adam",
                                                     .summary = "AdamW, then a frozen variance and an exchange of momentum (rule optimizer)",
                                                     .source = "Tang et al., 1-bit Adam, ICML 2021",
                                                     .parameters = {{.name = "freeze", .kind = ParameterSpec::Kind::integer, .default_value = "100", .minimum = 1, .maximum = 1e9,
                                                                     .help = "steps of AdamW before the variance is frozen; 15 to 25 % of the run (DeepSpeed)"}},
                                                     .state_per_element = 2,
                                                     .classes = classes,
                                                     .channels = channels,
                                                     .check = check});

}  // namespace
}  // namespace thinwire
