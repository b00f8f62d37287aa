// 1-bit Adam (Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence
// Speed", ICML 2021). For the first `freeze` steps it is AdamW on mean gradients. Then the variance v stays
// as it is, and replicas exchange momentum instead of gradients:
//   m_r = beta1 m + (1 - beta1) c_r g_r,   g_r: the replica's own gradient
//   m = mean over r of m_r as the exchange decodes it
//   w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^freeze)) + epsilon) + decay w)
// With a dense exchange that is Adam with a frozen variance, since the mean of momentums is the momentum of
// the mean. What compresses it is a rule of class `optimizer`; the paper's is sign:scale=l2+ef by protocol
// two_shot, whose two residuals are its worker's and server's error. Vectors travel dense, as one message.
// Bias is corrected, where DeepSpeed's code leaves it out.
//
// Before the freeze the mean gradient is clipped, and v is made of what is left. After it no rank knows the
// norm of the mean, so c_r clips each replica's own gradient by its own norm, to max_norm sqrt(N)
// (replica_clip.h; DeepSpeed's code: to max_norm): without, momentum would grow beyond what v was made of.
// clip=false: c_r = 1. What is recorded then is the root mean square of the replicas' norms.
#include <algorithm>
#include <cmath>

#include "models/update/policies/every_step.h"
#include "models/update/policies/replica_clip.h"
#include "models/update/policies/replica_exchange.h"

namespace thinwire {
namespace {

constexpr const char* exchange_name = "momentum";

/// Steps of AdamW. A share counts of the learning rate's schedule, which need not be as long as the run.
std::int64_t freeze_of(const Parameters& options, const TrainConfig& config) {
  const double share = options.real("freeze_fraction");
  if (share == 0) return options.integer("freeze");
  // 0.29 x 100 is less than 29 in f64: a hair more before it is rounded down.
  const double steps = share * static_cast<double>(config.trainer.schedule.total) * (1 + 1e-12);
  return std::max(std::int64_t{1}, static_cast<std::int64_t>(std::floor(steps)));
}

template <typename T>
class OnebitAdam final : public EveryStep<T> {
 public:
  explicit OnebitAdam(const UpdateContext<T>& c)
      : EveryStep<T>(c),
        store_(c.store),
        adamw_(c.config.trainer.adamw),
        freeze_(freeze_of(c.options, c.config)),
        optimizer_(adam_parts(c), adamw_),
        clip_(c, c.options.flag("clip")),
        exchange_(c, find_channel(c.channels, exchange_name), messages(), "momentum ") {}

  void reduce(int unit, int micro, bool last) override {
    if (!frozen()) EveryStep<T>::reduce(unit, micro, last);
  }
  void finish_reduction() override {
    if (!frozen()) EveryStep<T>::finish_reduction();
  }
  NormScope clip_scope() const override { return frozen() ? NormScope::none : EveryStep<T>::clip_scope(); }
  void add_sum_of_squares(double* sum) const override {
    if (frozen())
      clip_.add_sum_of_squares(sum);
    else
      optimizer_.add_sum_of_squares(sum);
  }
  void check_finite() const override { optimizer_.check_finite(); }

  void finish_step(const StepContext& step) override {
    if (!frozen()) {
      this->clock_.run("optimizer", -1, -1, [&] {
        optimizer_.set_steps_taken(step.step, this->moments_begin_);
        optimizer_.apply(step.learning_rate, step.gradient_scale);
      });
      return;
    }
    const auto& parts = store_.parts();
    const double scale = clip_.factor(step.step);
    this->clock_.run("momentum", -1, -1, [&] {
      for (std::size_t i = 0; i < parts.size(); ++i)
        nn::momentum_step<T>(adamw_.beta1, scale, parts[i].gradient.elements(),
                             static_cast<const T*>(parts[i].gradient.data()),
                             data_of<T>(optimizer_.first_moment(i)));
    });
    exchange_.run(step.step, this->waited_us);
    this->clock_.run("optimizer", -1, -1, [&] {
      for (std::size_t i = 0; i < parts.size(); ++i)
        nn::apply_moments<T>(adamw_, parts[i].parameter->decays ? adamw_.weight_decay : 0.0, step.learning_rate, step.step + 1, freeze_, parts[i].weights.elements(),
                             data_of<T>(optimizer_.first_moment(i)), data_of<T>(optimizer_.second_moment(i)), static_cast<T*>(parts[i].weights.data()));
    });
  }

  std::vector<StateSlot> state() override { return moment_slots(store_.parts(), optimizer_, true); }

 private:
  using Messages = std::vector<typename ReplicaExchange<T>::Message>;

  bool frozen() const { return this->step_ >= freeze_; }
  /// Momentum, in place.
  Messages messages() {
    Messages all;
    for (std::size_t i = 0; i < store_.parts().size(); ++i)
      all.push_back({optimizer_.first_moment(i).view(), optimizer_.first_moment(i).view()});
    return all;
  }

  ParameterStore<T>& store_;
  nn::AdamW adamw_;
  std::int64_t freeze_;
  Optimizer<T> optimizer_;
  ReplicaClip<T> clip_;
  ReplicaExchange<T> exchange_;
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
  const UpdateExpression update = parse_update(c.optimizer);
  const Parameters& own = update.inner ? update.inner->options : update.options;
  if (own.real("freeze_fraction") > 0 && own.given("freeze"))
    throw UsageError("--optimizer " + c.optimizer + ": freeze=" + own.choice("freeze") +
                     " and freeze_fraction=" + own.choice("freeze_fraction") +
                     " both say when the variance is frozen; leave one of them out");
}

std::vector<ParameterSpec> parameters() {
  using Kind = ParameterSpec::Kind;
  return {
      {.name = "freeze",
       .kind = Kind::integer,
       .default_value = "100",
       .minimum = 1,
       .maximum = 1e9,
       .help = "steps of AdamW before the variance is frozen; 15 to 25 % of the run (DeepSpeed)"},
      {.name = "freeze_fraction",
       .default_value = "0",
       .minimum = 0,
       .maximum = 1,
       .help = "instead of freeze: the share of --schedule-steps (where that is not given, of --steps) after "
               "which the variance is frozen, rounded down, at least 1 step; 0: freeze says it"},
      replica_clip_parameter()};
}

const bool registered = register_update<OnebitAdam>(
    {.name = "onebit_adam",
     .summary = "AdamW, then a frozen variance and an exchange of momentum (rule optimizer)",
     .source = "Tang et al., 1-bit Adam, ICML 2021",
     .parameters = parameters(),
     .state_per_element = 2,
     .classes = classes,
     .channels = channels,
     .check = check});

}  // namespace
}  // namespace thinwire
