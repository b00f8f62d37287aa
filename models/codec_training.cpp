#include "models/codec_training.h"

#include <algorithm>
#include <cstring>

#include "core/tensor_names.h"

namespace thinwire {

CodecTraining::CodecTraining(Channel* replicas, Channel* tensor, const nn::AdamW& options, ComputeClock& clock)
    : replicas_(replicas), tensor_(tensor), options_(options), clock_(clock) {
  options_.weight_decay = 0;
}

void CodecTraining::add(TrafficLane& lane, const std::vector<std::uint64_t>& tensors, std::int64_t columns, bool sums_encoder,
                        bool sums_decoder) {
  if (lane.coded() == nullptr) return;
  Codec& codec = *lane.coded()->codec().codec;
  for (std::uint64_t tensor : tensors) codec.prepare_training(tensor, columns);
  for (const CodecParameter& p : codec.trainable()) {
    const bool partial = p.owner == CodecParameter::Owner::sender ? sums_encoder : sums_decoder;
    weights_.push_back({p, partial, std::vector<float>(p.value.size(), 0.0f), std::vector<float>(p.value.size(), 0.0f)});
  }
}

void CodecTraining::reduce(Channel& channel, const char* name, std::int64_t step, bool partial_only) {
  const auto takes_part = [&](const Weights& w) { return !partial_only || w.sums_over_tensor_group; };
  std::int64_t elements = 0;
  for (const Weights& w : weights_) elements += takes_part(w) ? static_cast<std::int64_t>(w.parameter.gradient.size()) : 0;
  if (elements == 0) return;
  packed_.reshape({elements});
  float* at = packed_.as<float>().data();
  clock_.run("pack codec gradients", -1, -1, [&] {
    float* to = at;
    for (const Weights& w : weights_)
      if (takes_part(w)) to = std::copy(w.parameter.gradient.begin(), w.parameter.gradient.end(), to);
  });
  MessageKey key;
  key.tensor = tensor_id(name);
  key.step = step;
  channel.all_reduce(packed_.view(), packed_.view(), key).wait();
  clock_.run("unpack codec gradients", -1, -1, [&] {
    const float* from = at;
    for (const Weights& w : weights_)
      if (takes_part(w)) {
        std::copy_n(from, w.parameter.gradient.size(), w.parameter.gradient.begin());
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
      nn::adamw_step<float>(options_, 0.0, learning_rate, step + 1, 1.0, static_cast<std::int64_t>(w.parameter.value.size()),
                            w.parameter.gradient.data(), w.parameter.value.data(), w.first.data(), w.second.data());
      std::fill(w.parameter.gradient.begin(), w.parameter.gradient.end(), 0.0f);
    }
  });
}

std::vector<std::byte> CodecTraining::save_state() const {
  std::vector<std::byte> state;
  for (const Weights& w : weights_)
    for (const auto* moments : {&w.first, &w.second}) {
      const auto* bytes = reinterpret_cast<const std::byte*>(moments->data());
      state.insert(state.end(), bytes, bytes + moments->size() * sizeof(float));
    }
  return state;
}

void CodecTraining::load_state(std::span<const std::byte> state) {
  std::size_t expected = 0;
  for (const Weights& w : weights_) expected += 2 * w.first.size() * sizeof(float);
  if (state.size() != expected)
    throw CorruptData("The moments of trained codecs hold " + std::to_string(state.size()) + " bytes, expected " + std::to_string(expected) +
                      ". The checkpoint is damaged or of another configuration; start codecs anew with --codec-state reset.");
  const std::byte* from = state.data();
  for (Weights& w : weights_)
    for (auto* moments : {&w.first, &w.second}) {
      std::memcpy(moments->data(), from, moments->size() * sizeof(float));
      from += moments->size() * sizeof(float);
    }
}

}  // namespace thinwire
