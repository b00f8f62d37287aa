#include "models/parallel/pipeline/local_boundaries.h"

#include "core/error.h"
#include "models/parallel/pipeline/boundary_key.h"

namespace thinwire {

template <typename T>
LocalBoundaries<T>::LocalBoundaries(const TrainConfig& config, ChannelPair& pair, Stage<T>& model)
    : config_(config), pair_(pair), layers_per_stage_(static_cast<int>(config.model.layers) / config.boundary_stages) {
  TW_ASSERT(pair.size() == 1 && model.part().whole());
  if (!model.traits().boundary_hooks)
    throw UsageError("--boundary-stages " + std::to_string(config.boundary_stages) + ": model " + config.model_kind +
                     " does not show the gradients between its layers; give it a pipeline of ranks (--pp)");
  model.at_boundaries([this](int layer, const PassContext& pass, Tensor& gradient) { exchange(layer, pass, gradient); });
}

template <typename T>
void LocalBoundaries<T>::exchange(int layer, const PassContext& pass, Tensor& gradient) {
  if (layer % layers_per_stage_ != 0) return;
  const int sender = layer / layers_per_stage_, self = 0;
  const MessageKey key = boundary_key(layer, pass, {0, pass.rows()});
  Channel& channel = pair_.at(layer, sender, key);
  arrived_.reshape(gradient.shape(), dtype_of<T>);
  Operation sent = channel.send(gradient.view(), self, key);
  channel.receive(arrived_.view(), self, key).wait();
  sent.wait();
  const bool compares = std::is_same_v<T, float> && config_.error_interval > 0 && key.step % config_.error_interval == 0;
  if (compares && pair_.codes(layer, sender, key)) {
    Operation probe = pair_.compare_sent(gradient.view(), self, key);
    pair_.compare_received(arrived_.view(), self, key);
    probe.wait();
  }
  copy_bytes(data_of<T>(gradient), data_of<T>(arrived_), arrived_.bytes());
}

template class LocalBoundaries<float>;
template class LocalBoundaries<double>;

}  // namespace thinwire
