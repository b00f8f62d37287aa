// Deep gradient compression (Lin et al., ICLR 2018, arXiv 1712.01887). Every rank keeps momentum u and what it has not sent yet, v, of its own gradient g, and sends of v what the
// rule of class dp_gradient says (momentum_correction.h):
//   g_r clipped to max_norm sqrt(N);   u_r, v_r as there;   G = mean over the N ranks of what is sent of v_r;   w -= lr (G + decay w)
// The paper's codec is sampled_topk:ramp_steps=S, whose density falls to a thousandth while training warms up. Messages that no rule covers, vectors among them, travel whole: then G is the
// mean of the u_r, which is the momentum of the mean gradient, and without a rule this is `sgd` with another clipping. A rule's warmup_steps lead into it without a break.
// A rank's share g_r / N of the mean is clipped to max_norm N^(-1/2) by its own norm, over its tensor ranks: independent shares of that norm add up to max_norm. What is recorded is the
// root mean square of the ranks' norms.
#include <cmath>
#include <map>

#include "core/clock.h"
#include "core/tensor_names.h"
#include "kernels/nn/sgd.h"
#include "kernels/nn/sums.h"
#include "models/optimizer/gradient_sums.h"
#include "models/parallel/gradient/gradient_sync.h"
#include "models/update/policies/adam_parts.h"
#include "models/update/policies/momentum_correction.h"

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
      : store_(c.store),
        clock_(c.clock),
        tensor_control_(c.tensor_control),
        decay_(c.config.trainer.adamw.weight_decay),
        max_norm_(c.config.trainer.max_norm),
        ranks_(c.config.mesh.dp),
        rank_(c.mesh.coordinates().dp),
        stage_(c.mesh.coordinates().pp),
        clips_(c.options.flag("clip")),
        exchange_(find_channel(c.channels, exchange_name)),
        parts_(adam_parts(c)) {
    std::vector<Shape> shapes;
    std::map<std::uint64_t, std::size_t> places;
    std::int64_t in_vectors = 0;
    for (OptimizerPart<T>& part : parts_) {
      part.counts = part.parameter->layout.counts_in_norm();  // in the norm of this rank's gradient
      places[message_of(part)] = shapes.size();
      shapes.push_back(part.weights.shape());
      if (exchange_ && !is_matrix(*part.parameter)) in_vectors += part.weights.elements();
    }
    vectors_.reshape({in_vectors}, dtype_of<T>);
    correction_ = std::make_shared<MomentumCorrection<T>>(shapes, c.options.real("momentum"), c.options.flag("nesterov"), c.options.flag("masking"));
    if (exchange_ && exchange_->coded()) exchange_->coded()->codec().wrappers.push_back(std::make_unique<SentEntries<T>>(correction_, std::move(places)));
  }

  void begin_step(std::int64_t step) override { step_ = step; }
  void expect(int) override {}
  void reduce(int, int, bool) override {}
  void finish_reduction() override {}
  NormScope clip_scope() const override { return NormScope::none; }
  void add_sum_of_squares(double* sum) const override {
    double* const squares = shaped<double>(own_squares_, {1});
    own_squares_.fill_zero();
    add_gradient_squares(parts_, squares);
    nn::add_total<double, double>(1, squares, 1.0, ranks_, sum);
  }
  void check_finite() const override { check_gradients_finite(parts_, step_); }

  void finish_step(const StepContext& step) override {
    const double scale = clips_ ? nn::clip_factor(own_norm(), max_norm_ * std::sqrt(ranks_)) : 1.0;
    clock_.run("momentum", -1, -1, [&] {
      for (std::size_t i = 0; i < parts_.size(); ++i) correction_->add(i, static_cast<const T*>(parts_[i].gradient.data()), scale);
    });
    exchange();
    clock_.run("optimizer", -1, -1, [&] {
      for (const OptimizerPart<T>& part : parts_)
        nn::descend<T>(step.learning_rate, part.parameter->decays ? decay_ : 0.0, part.weights.elements(), static_cast<const T*>(part.gradient.data()), static_cast<T*>(part.weights.data()));
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
  static std::uint64_t message_of(const OptimizerPart<T>& part) { return tensor_id(part.parameter->name()); }
  MessageKey key_of(std::uint64_t message) const {
    MessageKey key;
    key.tensor = message;
    key.step = step_;
    return key;
  }

  /// Of this rank's gradient, with those of its tensor ranks.
  double own_norm() {
    T squares = static_cast<T>(read_number(own_squares_));
    const TensorView one(&squares, {1});
    if (tensor_control_.communicator().size() > 1) tensor_control_.all_reduce(one, one, key_of(hash_name("norm of one rank"))).wait();
    return std::sqrt(static_cast<double>(squares));
  }

  /// parts' gradients = mean over ranks of what is sent. Vectors travel together.
  void exchange() {
    std::vector<Operation> sums;
    std::vector<std::size_t> whole;  ///< what no codec takes a part of
    T* packed = data_of<T>(vectors_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Parameter<T>& p = *parts_[i].parameter;
      const MessageKey key = key_of(message_of(parts_[i]));
      const int unit = store_.parts()[i].unit;
      const bool coded = exchange_ && is_matrix(p) && exchange_->codes(unit, stage_, key, p.elements());
      if (!coded) whole.push_back(i);
      const TensorView late = correction_->late(i).view();
      if (!exchange_) {
        copy_bytes(parts_[i].gradient.data(), late.data(), late.bytes());
      } else if (is_matrix(p)) {
        sums.push_back((coded ? *exchange_->coded() : exchange_->dense()).all_reduce(late, parts_[i].gradient, key));
      } else {
        copy_bytes(packed, late.data(), late.bytes());
        packed += late.elements();
      }
    }
    if (vectors_.elements() > 0) sums.push_back(exchange_->dense().all_reduce(vectors_.view(), vectors_.view(), key_of(tensor_id("vectors"))));
    const std::int64_t begin = now_ns();
    for (Operation& sum : sums) sum.wait();
    this->waited_us += static_cast<double>(now_ns() - begin) * 1e-3;
    packed = data_of<T>(vectors_);
    for (const OptimizerPart<T>& part : parts_)
      if (exchange_ && !is_matrix(*part.parameter)) {
        copy_bytes(part.gradient.data(), packed, part.gradient.bytes());
        packed += part.gradient.elements();
      }
    for (const std::size_t i : whole) correction_->sent_whole(i);
  }

  ParameterStore<T>& store_;
  ComputeClock& clock_;
  Channel& tensor_control_;
  double decay_, max_norm_;
  int ranks_, rank_, stage_;
  bool clips_;
  std::int64_t step_ = 0;
  ChannelPair* exchange_;
  std::vector<OptimizerPart<T>> parts_;
  std::shared_ptr<MomentumCorrection<T>> correction_;  ///< shared with the channel's hooks
  Tensor vectors_;  ///< under way together
  mutable Tensor own_squares_;
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
  if (rule.protocol == Protocol::two_shot) refuse("compress.dp_gradient.protocol = two_shot", "sums are coded again, and what that drops nobody keeps; use automatic or gather");
  if (c.error_interval > 0) refuse("--error-interval " + std::to_string(c.error_interval), "what is sent is taken from what is kept as it leaves, and cannot be sent again; use --error-interval 0");
}

const bool registered = register_update<Dgc>({.name = "dgc",
                                              .summary = "deep gradient compression: momentum on each rank, of which a part is sent (rule dp_gradient)",
                                              .source = "Lin et al., ICLR 2018 (arXiv 1712.01887); authors' code",
                                              .parameters = {{.name = "momentum", .default_value = "0.9", .minimum = 0, .maximum = 1, .help = "share of the sum of gradients that a step keeps"},
                                                             {.name = "nesterov", .kind = ParameterSpec::Kind::flag, .default_value = "false", .help = "add g + momentum u to what is to be sent, instead of u"},
                                                             {.name = "masking", .kind = ParameterSpec::Kind::flag, .default_value = "true", .help = "an element that was sent forgets its momentum"},
                                                             {.name = "clip", .kind = ParameterSpec::Kind::flag, .default_value = "true", .help = "clip each rank's gradient to --clip times the root of the ranks"}},
                                              .state_per_element = 2,
                                              .classes = gradient_classes,
                                              .channels = gradient_channels,
                                              .check = check});

}  // namespace
}  // namespace thinwire
