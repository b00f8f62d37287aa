#include "models/update/policies/replica_exchange.h"

#include "collectives/communicator/process_mesh.h"
#include "collectives/process/rank_clock.h"
#include "core/tensor_names.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {
namespace {

MessageKey key_of(std::uint64_t tensor, std::int64_t step) {
  MessageKey key;
  key.tensor = tensor;
  key.step = step;
  return key;
}

}  // namespace

template <typename T>
ReplicaExchange<T>::ReplicaExchange(const UpdateContext<T>& c, ChannelPair* channels,
                                    std::vector<Message> messages, const std::string& prefix)
    : parts_(c.store.parts()),
      channels_(channels),
      stage_(c.mesh.coordinates().pp),
      messages_(std::move(messages)),
      vectors_id_(tensor_id(prefix + "vectors")) {
  TW_ASSERT(messages_.size() == parts_.size());
  std::int64_t in_vectors = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    ids_.push_back(tensor_id(prefix + parts_[i].parameter->name()));
    if (!is_matrix(*parts_[i].parameter)) in_vectors += messages_[i].own.elements();
  }
  if (channels_) vectors_.reshape({in_vectors}, dtype_of<T>);
}

template <typename T>
bool ReplicaExchange<T>::codes(std::size_t i, std::int64_t step) const {
  const Parameter<T>& p = *parts_[i].parameter;
  return channels_ && is_matrix(p) &&
         channels_->codes(parts_[i].unit, stage_, key_of(ids_[i], step), p.elements());
}

template <typename T>
void ReplicaExchange<T>::run(std::int64_t step, double& waited_us) {
  if (!channels_) {
    for (const Message& m : messages_)
      if (m.mean.data() != m.own.data()) copy_bytes(m.mean.data(), m.own.data(), m.own.bytes());
    return;
  }
  std::vector<Operation> sums;
  T* packed = data_of<T>(vectors_);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Message& m = messages_[i];
    if (is_matrix(*parts_[i].parameter)) {
      Channel& channel = codes(i, step) ? *channels_->coded() : channels_->dense();
      sums.push_back(channel.all_reduce(m.own, m.mean, key_of(ids_[i], step)));
    } else {
      copy_bytes(packed, m.own.data(), m.own.bytes());
      packed += m.own.elements();
    }
  }
  if (vectors_.elements() > 0)
    sums.push_back(
        channels_->dense().all_reduce(vectors_.view(), vectors_.view(), key_of(vectors_id_, step)));
  const std::int64_t begin = RankClock::now_ns();
  for (Operation& sum : sums) sum.wait();
  waited_us += static_cast<double>(RankClock::now_ns() - begin) * 1e-3;
  packed = data_of<T>(vectors_);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (is_matrix(*parts_[i].parameter)) continue;
    copy_bytes(messages_[i].mean.data(), packed, messages_[i].mean.bytes());
    packed += messages_[i].mean.elements();
  }
}

template class ReplicaExchange<float>;
template class ReplicaExchange<double>;

}  // namespace thinwire
