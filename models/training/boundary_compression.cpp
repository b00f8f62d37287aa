#include "models/training/boundary_compression.h"

#include "kernels/nn/elementwise.h"
#include "models/training/config/released_form.h"
#include "models/parallel/pipeline/boundary_key.h"
#include "models/parallel/tensor/tensor_parallel.h"

namespace thinwire {
namespace {

const CompressRule& backward_rule(const TrainConfig& c) {
  const auto rule = c.compress.find(TrafficClass::pp_backward);
  const auto refuse = [](const std::string& why) { throw UsageError("Boundary compression within one process: " + why); };
  if (rule == c.compress.end() || !rule->second.active()) refuse("the configuration has no codec for pp_backward.");
  if (const auto forward = c.compress.find(TrafficClass::pp_forward); forward != c.compress.end() && forward->second.active())
    refuse("pp_forward is compressed too, which only the parallel trainer does.");
  if (c.device != DeviceKind::host) refuse("its codecs work on the host; use --device host.");
  if (c.mesh.tp != 1) refuse("tensor parallelism of " + std::to_string(c.mesh.tp) + "; it is for 1.");
  if (sends_positions_first(c)) refuse("the released form of powersgd, whose view of a message is the pipeline's; it is for --form fair.");
  if (!schedule_traits(c.schedule).epilogue) refuse("schedule '" + c.schedule + "'; it is for 1f1b.");
  if (c.dtype != DType::f32 || c.comm_dtype != DType::f32) refuse("training and wire type must be f32, which rounds nothing else on the way.");
  if (c.model.layers % c.mesh.pp != 0)
    refuse(std::to_string(c.model.layers) + " layers do not divide into " + std::to_string(c.mesh.pp) + " stages.");
  return rule->second;
}

}  // namespace

BoundaryCompression::BoundaryCompression(const TrainConfig& config)
    : layers_per_stage_(static_cast<int>(config.model.layers) / config.mesh.pp),
      micro_batches_(static_cast<int>(config.micro_batches())),
      micro_batch_(config.micro_batch),
      coverage_(TrafficClass::pp_backward, backward_rule(config), config.mesh.pp, micro_batches_) {
  const CompressRule& rule = backward_rule(config);
  for (int replica = 0; replica < config.mesh.dp; ++replica) stacks_.push_back(make_codec(rule.codec, config.form, config.model.seed));
}

void BoundaryCompression::exchange(int layer, const PassContext& pass, Tensor& gradient) {
  if (layer == 0 || layer % layers_per_stage_ != 0) return;
  const std::int64_t number = pass.first_sample / micro_batch_;  // of the micro-batch within the global batch
  BoundaryMessage message;
  message.boundary = layer;
  message.sender = layer / layers_per_stage_;
  message.replica = static_cast<int>(number / micro_batches_);
  message.micro = static_cast<int>(number % micro_batches_);
  message.step = static_cast<std::int64_t>(pass.step);
  TW_ASSERT(message.replica < static_cast<int>(stacks_.size()), "a sample beyond the global batch");
  PassContext named = pass;
  named.micro = message.micro, named.replica = static_cast<std::uint64_t>(message.replica);
  const MessageKey key = boundary_key(layer, named, {0, named.rows()});
  if (!coverage_.covers(layer, message.sender, key)) return;

  CodecStack& stack = stacks_[static_cast<std::size_t>(message.replica)];
  // Each replica starts from the mean loss of its own samples.
  const auto replicas = static_cast<float>(stacks_.size());
  if (replicas > 1) nn::scale_in_place<float>(gradient.elements(), replicas, gradient.as<float>().data());
  if (watcher_) {
    before_.reshape(gradient.shape());
    std::copy_n(gradient.as<float>().data(), gradient.elements(), before_.as<float>().data());
  }
  const std::size_t most = stack.codec->max_payload_bytes(gradient.shape());
  payload_.reserve(most);
  const std::size_t bytes = encode_message(stack, gradient.view(), key, {payload_.data(), most}, scratch_);
  decode_message(stack, {payload_.data(), bytes}, key, gradient.view());
  if (watcher_) {
    message.gradient = before_.view();
    message.arrived = gradient.view();
    watcher_(message);
  }
  if (replicas > 1) nn::scale_in_place<float>(gradient.elements(), 1 / replicas, gradient.as<float>().data());
}

}  // namespace thinwire
