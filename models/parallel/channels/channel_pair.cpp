#include "models/parallel/channels/channel_pair.h"

#include <utility>

#include "kernels/values.h"
#include "models/parallel/channels/dense_algorithm.h"

namespace thinwire {
namespace {

ChannelOptions options_of(TrafficClass traffic, const ChannelPairOptions& pair, DenseAlgorithm algorithm) {
  ChannelOptions o;
  o.traffic = traffic;
  o.comm_dtype = pair.comm_dtype;
  o.average = pair.average;
  o.algorithm = algorithm;
  o.keep_for_recompute = pair.keep_for_recompute;
  o.operation = pair.operation;
  o.draws = static_cast<std::uint64_t>(pair.level);
  o.small_at_once = pair.small_at_once;
  return o;
}

}  // namespace

ChannelPair::ChannelPair(Communicator& group, TrafficClass traffic, const CompressRule& rule, const ChannelPairOptions& options)
    : coverage_(traffic, rule, options.stages, options.micro_batches), dense_(group, options_of(traffic, options, dense_algorithm(group))), level_(options.level) {
  if (!compresses(rule.codec)) return;
  ChannelOptions coded = options_of(traffic, options, dense_.options().algorithm);
  coded.codec = rule.codec;
  coded.form = options.form;  // a dense channel has no forms
  coded.protocol = rule.protocol;
  coded.overlap_blocks = rule.overlap;
  coded.reuse_payloads = options.reuse_payloads;
  coded.run_seed = options.run_seed;
  coded_.emplace(group, coded);
  if (!options.measures_errors) return;
  ChannelOptions probe = options_of(TrafficClass::control, options, dense_.options().algorithm);
  probe.comm_dtype = DType::f32;
  probe.keep_for_recompute = false;
  probe.small_at_once = 0;
  probe_.emplace(group, probe);
}

void ChannelPair::add_error(ConstTensorView approximate, ConstTensorView exact) {
  // Outside of timed steps: what lies on a device is read back.
  Tensor copies[2];
  const auto values = [](ConstTensorView x, Tensor& copy) {
    if (x.device().kind == DeviceKind::host) return x.as<float>();
    copy = on_host(x);
    return std::as_const(copy).as<float>();
  };
  const auto a = values(approximate, copies[0]), b = values(exact, copies[1]);
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double reference = b[i], difference = static_cast<double>(a[i]) - reference;
    error_squared_ += difference * difference;
    reference_squared_ += reference * reference;
  }
}

void ChannelPair::compare_reduction(ConstTensorView in, ConstTensorView reduced, const MessageKey& key) {
  if (!probe_) return;
  exact_.reshape(in.shape());
  probe_->all_reduce(in, exact_.view(), key).wait();
  add_error(reduced, exact_.view());
}

Operation ChannelPair::compare_sent(ConstTensorView in, int to, const MessageKey& key) {
  return probe_ ? probe_->send(in, to, key) : Operation();
}

void ChannelPair::compare_received(ConstTensorView decoded, int from, const MessageKey& key) {
  if (!probe_) return;
  exact_.reshape(decoded.shape());
  probe_->receive(exact_.view(), from, key).wait();
  add_error(decoded, exact_.view());
}

void ChannelPair::omit(bool omitted) {
  dense_.omit(omitted);
  if (coded_) coded_->omit(omitted);
}

void ChannelPair::drain_link(LinkDrain* drain) {
  dense_.drain_link_before_transfers(drain);
  if (coded_) coded_->drain_link_before_transfers(drain);
}

void ChannelPair::set_compute(ComputeMode mode, double scale) {
  dense_.set_compute(mode, scale);
  if (coded_) coded_->set_compute(mode, scale);
}

void ChannelPair::progress() {
  dense_.progress();
  if (coded_) coded_->progress();
}

void ChannelPair::take_records(std::vector<TrafficRecord>& records) {
  const auto take = [&](Channel& channel, double error, double reference) {
    Meter& meter = channel.meter();
    if (meter.operations() == 0) return;
    records.push_back({channel.options().traffic, channel.codec().expression.canonical(), meter.operations(), meter.total(), error,
                       reference, level_});
    meter.reset();
  };
  take(dense_, 0, 0);
  if (coded_) take(*coded_, error_squared_, reference_squared_);
  error_squared_ = reference_squared_ = 0;
}

}  // namespace thinwire
