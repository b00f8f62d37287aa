#include "models/parallel/gradient/tied_table.h"

#include "core/tensor_names.h"
#include "kernels/nn/elementwise.h"
#include "models/parallel/gradient/reduction_wait.h"

namespace thinwire {

std::vector<ChannelSpec> tied_table_channels(const TrainConfig& config, ProcessMesh& mesh, bool over_replicas) {
  if (config.mesh.pp == 1) return {};
  ChannelSpec spec;
  spec.traffic = TrafficClass::embedding;
  if (over_replicas && config.embedding_sync == "fused") {
    spec.name = "embedding", spec.ranks = fused_embedding_groups(config.mesh, config.form);
    return {spec};
  }
  if (!mesh.first_stage() && !mesh.last_stage()) return {};
  std::vector<ChannelSpec> specs;
  if (over_replicas) {
    spec.name = "embedding.replicas", spec.group = "within_replica";
    specs.push_back(spec);
  }
  spec.name = "embedding.stages", spec.group = "embedding";
  specs.push_back(spec);
  return specs;
}

template <typename T>
TiedTable<T>::TiedTable(const OwnedPart<T>* table, const NamedChannels& channels, int copies, ComputeClock& clock)
    : table_(table),
      first_(find_channel(channels, "embedding")),
      stages_(find_channel(channels, "embedding.stages")),
      copies_(copies),
      clock_(clock) {
  if (first_ == nullptr) first_ = find_channel(channels, "embedding.replicas");
}

template <typename T>
MessageKey TiedTable<T>::key() const {
  MessageKey key;
  key.tensor = tensor_id("embedding.token");  // of every model and store, which may call it otherwise: what codecs remember goes by it
  key.step = step_;
  return key;
}

template <typename T>
void TiedTable<T>::start(std::int64_t step) {
  step_ = step;
  if (!starts()) return;
  const TensorView view = table_->gradient;
  operation_ = first_->at(-1, 0, key()).all_reduce(view, view, key());
}

template <typename T>
void TiedTable<T>::finish(double& waited_us) {
  if (!table_) return;
  wait_reduction(operation_, waited_us);
  const TensorView view = table_->gradient;
  if (stages_) {
    Operation second = stages_->at(-1, 0, key()).all_reduce(view, view, key());
    wait_reduction(second, waited_us);
  }
  if (copies_ > 1)
    clock_.run("average table gradient", -1, -1,
               [&] { nn::scale_in_place<T>(view.elements(), static_cast<T>(1.0 / copies_), static_cast<T*>(view.data())); });
}

template class TiedTable<float>;
template class TiedTable<double>;

}  // namespace thinwire
