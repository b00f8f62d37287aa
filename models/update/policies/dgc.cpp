// Deep gradient compression (Lin et al., ICLR 2018, arXiv 1712.01887). Every rank keeps momentum u and what
// it has not sent yet, v, of its own gradient g, and sends of v what the rule of class dp_gradient says
// (momentum_correction.h):
//   g_r clipped to max_norm sqrt(N);   u_r, v_r as there;   G = mean over the N ranks of what is sent of v_r;
//   w -= lr (G + decay w)
// The paper's codec is sampled_topk:ramp_steps=S, whose density falls to a thousandth while training warms
// up. Messages that no rule covers, vectors among them, travel whole: then G is the mean of the u_r, which is
// the momentum of the mean gradient, and without a rule this is `sgd` with another clipping. A rule's
// warmup_steps lead into it without a break. Each rank clips its own gradient (replica_clip.h).
#include <map>

#include "kernels/nn/sgd.h"
#include "models/optimizer/gradient_sums.h"
#include "models/parallel/gradient/gradient_sync.h"
#include "models/update/policies/adam_parts.h"
#include "models/update/policies/momentum_correction.h"
#include "models/update/policies/momentum_parameter.h"
#include "models/update/policies/replica_clip.h"
#include "models/update/policies/replica_exchange.h"

namespace thinwire {
namespace {

constexpr const char* exchange_name = "dp_gradient";  // of gradient_channels

/// Tells what of a rank's message arrives, by hooks of its channel.
template <typename T>
class SentEntries final : public Wrapper {
 public:
  SentEntries(std::shared_ptr<MomentumCorrection<T>> correction, std::map<std::uint64_t, std::size_t> places) : correction_(std::move(correction)), places_(std::move(places)) {}
  bool needs_own_decoded() const override { return true; }
  void before_encode(TensorView, const MessageKey&) override {}
  void after_encode(ConstTensorView, ConstTensorView, const MessageKey&) override {}
  void after_decode(TensorView, const MessageKey&) override {}
  void after_reduce(ConstTensorView, ConstTensorView own_decoded, ConstTensorView, const MessageKey& key) override { correction_->sent(places_.at(key.tensor), own_decoded); }

 private:
  std::shared_ptr<MomentumCorrection<T>> correction_;
  std::map<std::uint64_t, std::size_t> places_;  ///< by MessageKey::tensor
};

template <typename T>
class Dgc final : public UpdatePolicy<T> {
 public:
  explicit Dgc(const UpdateContext<T>& c)
      : clock_(c.clock),
        decay_(c.config.trainer.adamw.weight_decay),
        ranks_(c.config.mesh.dp),
        rank_(c.mesh.coordinates().dp),
        parts_(adam_parts(c)),
        clip_(c, c.options.flag("clip")),
        correction_(correction_of(parts_, c.options)),
        exchange_(c, find_channel(c.channels, exchange_name), messages(), "") {
    ChannelPair* const channels = find_channel(c.channels, exchange_name);
    if (!channels || !channels->coded()) return;
    std::map<std::uint64_t, std::size_t> places;
    for (std::size_t i = 0; i < parts_.size(); ++i) places[exchange_.id(i)] = i;
    channels->coded()->codec().wrappers.push_back(
        std::make_unique<SentEntries<T>>(correction_, std::move(places)));
  }

  void begin_step(std::int64_t step) override { step_ = step; }
  void expect(int) override {}
  void reduce(int, int, bool) override {}
  void finish_reduction() override {}
  NormScope clip_scope() const override { return NormScope::none; }
  void add_sum_of_squares(double* sum) const override { clip_.add_sum_of_squares(sum); }
  void check_finite() const override { check_gradients_finite(parts_, step_); }

  void finish_step(const StepContext& step) override {
    const double scale = clip_.factor(step_);
    clock_.run("momentum", -1, -1, [&] {
      for (std::size_t i = 0; i < parts_.size(); ++i)
        correction_->add(i, static_cast<const T*>(parts_[i].gradient.data()), scale);
    });
    exchange_.run(step_, this->waited_us);  // gradients are then means of what was sent
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (!exchange_.codes(i, step_)) correction_->sent_whole(i);
    clock_.run("optimizer", -1, -1, [&] {
      for (const OptimizerPart<T>& part : parts_)
        nn::descend<T>(step.learning_rate, part.parameter->decays ? decay_ : 0.0, part.weights.elements(),
                       static_cast<const T*>(part.gradient.data()), static_cast<T*>(part.weights.data()));
    });
  }

  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      StateSlot slot;
      slot.owner = Owner::per_replica, slot.replica = rank_, slot.replicas = ranks_;
      slot.layout = parts_[i].parameter->layout;
      slot.name = "momentum", slot.value = correction_->momentum(i).view();
      slots.push_back(slot);
      slot.name = "late", slot.value = correction_->late(i).view();
      slots.push_back(slot);
    }
    return slots;
  }

 private:
  using Messages = std::vector<typename ReplicaExchange<T>::Message>;

  static std::shared_ptr<MomentumCorrection<T>> correction_of(const std::vector<OptimizerPart<T>>& parts,
                                                              const Parameters& options) {
    std::vector<Shape> shapes;
    for (const OptimizerPart<T>& part : parts) shapes.push_back(part.weights.shape());
    return std::make_shared<MomentumCorrection<T>>(shapes, options.real("momentum"), options.flag("nesterov"),
                                                   options.flag("masking"));
  }
  Messages messages() {
    Messages all;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      all.push_back({correction_->late(i).view(), parts_[i].gradient});
    return all;
  }

  ComputeClock& clock_;
  double decay_;
  int ranks_, rank_;
  std::int64_t step_ = 0;
  std::vector<OptimizerPart<T>> parts_;
  ReplicaClip<T> clip_;
  std::shared_ptr<MomentumCorrection<T>> correction_;  ///< shared with the channel's hooks
  ReplicaExchange<T> exchange_;
};

void check(const TrainConfig& c) {
  const auto refuse = [](const std::string& what, const std::string& why) { throw UsageError(what + " does not go with --optimizer dgc: " + why); };
  if (c.zero_stage > 0)
    refuse("--zero-stage " + std::to_string(c.zero_stage), "every rank keeps what it has not sent yet of its whole gradient, to all owners; use --zero-stage 0");
  if (c.mesh.pp > 1) refuse("--pp " + std::to_string(c.mesh.pp), "the tied table's gradient is summed over stages, what a rank sends of it is not; use --pp 1");
  if (c.sequence_parallel && c.mesh.tp > 1) refuse("--sequence-parallel true", "gradients of tensor replicas are summed together with those of data replicas; leave it out");
  if (c.device != DeviceKind::host) refuse("--device cuda", "its update exists on the host only; use --device host");
  const auto found = c.compress.find(TrafficClass::dp_gradient);
  if (found == c.compress.end() || !found->second.active()) return;
  const CompressRule& rule = found->second;
  const std::string what = "compress.dp_gradient = " + rule.codec;
  const CodecStack stack = make_codec(rule.codec, c.form);
  for (const CodecExpression::Part& wrapper : stack.expression.wrappers)
    if (wrapper_info(wrapper.name).remembers_loss) refuse(what, "what was not sent is kept by the optimizer already, and +" + wrapper.name + " would add it twice; leave +" + wrapper.name + " out");
  if (stack.codec->traits().feedback != FeedbackSource::own_decoded)
    refuse(what, "a rank must know what of its own message arrived, and this codec has a sum only; take one that sends elements, such as sampled_topk");
  if (!stack.codec->traits().loss_is_own)
    refuse(what, "what it delivers is no sum of what the ranks sent, so that nobody knows what of its own message arrived; take one that sends elements, such as sampled_topk");
  if (rule.protocol == Protocol::two_shot) refuse("compress.dp_gradient.protocol = two_shot", "sums are coded again, and what that drops nobody keeps; use automatic or gather");
  if (c.error_interval > 0) refuse("--error-interval " + std::to_string(c.error_interval), "what is sent is taken from what is kept as it leaves, and cannot be sent again; use --error-interval 0");
}

const bool registered = register_update<Dgc>(
    {.name = "dgc",
     .summary =
         "deep gradient compression: momentum on each rank, of which a part is sent (rule dp_gradient)",
     .source = "Lin et al., ICLR 2018 (arXiv 1712.01887); authors' code",
     .parameters = {momentum_parameter("0.9"),
                    {.name = "nesterov",
                     .kind = ParameterSpec::Kind::flag,
                     .default_value = "false",
                     .help = "add g + momentum u to what is to be sent, instead of u"},
                    {.name = "masking",
                     .kind = ParameterSpec::Kind::flag,
                     .default_value = "true",
                     .help = "an element that was sent forgets its momentum"},
                    replica_clip_parameter()},
     .state_per_element = 2,
     .classes = gradient_classes,
     .channels = gradient_channels,
     .check = check});

}  // namespace
}  // namespace thinwire
