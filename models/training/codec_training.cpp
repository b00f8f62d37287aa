#include "models/training/codec_training.h"

#include <cstring>

#include "core/tensor_names.h"
#include "models/layout/parameter.h"

namespace thinwire {

CodecTraining::CodecTraining(Channel* replicas, Channel* tensor, const nn::AdamW& options, ComputeClock& clock)
    : replicas_(replicas), tensor_(tensor), options_(options), clock_(clock) {
  options_.weight_decay = 0;
}

void CodecTraining::add(ChannelPair& pair, const std::vector<std::uint64_t>& tensors, std::int64_t columns, bool sums_encoder,
                        bool sums_decoder) {
  if (pair.coded() == nullptr) return;
  auto* codec = pair.coded()->codec().codec->as<Trainable>();
  if (codec == nullptr) return;
  for (std::uint64_t tensor : tensors) codec->prepare_training(tensor, columns);
  for (const CodecParameter& p : codec->trainable()) {
    const bool partial = p.owner == CodecParameter::Owner::sender ? sums_encoder : sums_decoder;
    const Shape shape = {static_cast<std::int64_t>(p.value.size())};
    weights_.push_back(Weights{p, partial, Tensor(shape), Tensor(shape), pair.first_coded_step()});
    weights_.back().first.fill_zero();
    weights_.back().second.fill_zero();
  }
}

void CodecTraining::reduce(Channel& channel, const char* name, std::int64_t step, bool partial_only) {
  const auto takes_part = [&](const Weights& w) { return !partial_only || w.sums_over_tensor_group; };
  std::int64_t elements = 0;
  for (const Weights& w : weights_) elements += takes_part(w) ? static_cast<std::int64_t>(w.parameter.gradient.size()) : 0;
  if (elements == 0) return;
  packed_.reshape({elements});
  float* at = data_of<float>(packed_);
  clock_.run("pack codec gradients", -1, -1, [&] {
    float* to = at;
    for (const Weights& w : weights_)
      if (takes_part(w)) {
        copy_elements(to, w.parameter.gradient.data(), w.parameter.gradient.size());
        to += w.parameter.gradient.size();
      }
  });
  MessageKey key;
  key.tensor = tensor_id(name);
  key.step = step;
  channel.all_reduce(packed_.view(), packed_.view(), key).wait();
  clock_.run("unpack codec gradients", -1, -1, [&] {
    const float* from = at;
    for (const Weights& w : weights_)
      if (takes_part(w)) {
        copy_elements(w.parameter.gradient.data(), from, w.parameter.gradient.size());
        from += w.parameter.gradient.size();
      }
  });
}

void CodecTraining::step(std::int64_t step, double learning_rate) {
  if (weights_.empty()) return;
  if (tensor_ && tensor_->communicator().size() > 1) reduce(*tensor_, "codec gradients, tensor group", step, true);
  if (replicas_) reduce(*replicas_, "codec gradients, replicas", step, false);
  clock_.run("codec optimizer", -1, -1, [&] {
    for (Weights& w : weights_) {
      if (step < w.begins) continue;  // no message was coded, and the gradient is zero
      if (w.steps == unknown) w.steps = step;
      nn::adamw_step<float>(options_, 0.0, learning_rate, ++w.steps, 1.0, static_cast<std::int64_t>(w.parameter.value.size()),
                            w.parameter.gradient.data(), w.parameter.value.data(), data_of<float>(w.first), data_of<float>(w.second));
      fill_zero_bytes(w.parameter.gradient.data(), w.parameter.gradient.size() * sizeof(float));
    }
  });
}

std::vector<std::byte> CodecTraining::save_state() const {
  std::vector<std::byte> state;
  for (const Weights& w : weights_)
    for (const Tensor* moments : {&w.first, &w.second}) {
      const std::size_t at = state.size();
      state.resize(at + moments->bytes());
      copy_and_wait(state.data() + at, moments->view().data(), moments->bytes());
    }
  return state;
}

void CodecTraining::load_state(std::span<const std::byte> state) {
  std::size_t expected = 0;
  for (const Weights& w : weights_) expected += 2 * w.first.bytes();
  if (state.size() != expected)
    throw CorruptData("The moments of trained codecs hold " + std::to_string(state.size()) + " bytes, expected " + std::to_string(expected) +
                      ". The checkpoint is damaged or of another configuration; start codecs anew with --codec-state reset.");
  const std::byte* from = state.data();
  for (Weights& w : weights_)
    for (Tensor* moments : {&w.first, &w.second}) {
      copy_and_wait(moments->view().data(), from, moments->bytes());
      from += moments->bytes();
    }
}

std::vector<std::byte> CodecTraining::save_steps() const {
  std::vector<std::byte> state(weights_.size() * sizeof(std::int64_t));
  for (std::size_t i = 0; i < weights_.size(); ++i) std::memcpy(state.data() + i * sizeof(std::int64_t), &weights_[i].steps, sizeof(std::int64_t));
  return state;
}

void CodecTraining::load_steps(std::span<const std::byte> state) {
  if (!state.empty() && state.size() != weights_.size() * sizeof(std::int64_t))
    throw CorruptData("The steps of trained codecs take " + std::to_string(state.size()) + " bytes, expected " + std::to_string(weights_.size() * sizeof(std::int64_t)) +
                      ". The checkpoint is damaged or of another configuration; start codecs anew with --codec-state reset.");
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    std::int64_t steps = unknown;
    if (!state.empty()) std::memcpy(&steps, state.data() + i * sizeof steps, sizeof steps);
    if (steps < unknown) throw CorruptData("A trained codec is said to have taken " + std::to_string(steps) + " steps. The checkpoint is damaged; start codecs anew with --codec-state reset.");
    weights_[i].steps = steps;
  }
}

}  // namespace thinwire
