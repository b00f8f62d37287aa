#include "models/update/policies/whole_matrix.h"

#include <algorithm>

#include "collectives/process/rank_clock.h"
#include "core/tensor_names.h"
#include "models/training/config/train_config.h"

namespace thinwire {
namespace {

constexpr const char *shards_name = "momentum.shards", *tensor_name = "momentum.tensor";

}  // namespace

std::vector<ChannelSpec> whole_matrix_channels(const TrainConfig& config, ProcessMesh& mesh) {
  std::vector<ChannelSpec> specs;
  if (config.shards_gradients())
    specs =
        row_exchange_channels({.name = shards_name, .traffic = TrafficClass::optimizer}, mesh.shape().data());
  specs.push_back({.name = tensor_name, .traffic = TrafficClass::optimizer, .group = "tensor"});
  return specs;
}

std::set<TrafficClass> whole_matrix_classes(const TrainConfig& config) {
  if (config.shards_gradients() || config.mesh.tp > 1) return {TrafficClass::optimizer};
  return {};
}

template <typename T>
WholeMatrix<T>::WholeMatrix(const UpdateContext<T>& c, const std::vector<OwnedPart<T>>& parts)
    : parts_(parts),
      stage_(c.mesh.coordinates().pp),
      shards_(c.channels, shards_name, {c.mesh.shape().data(), c.mesh.data_coordinates()}, stage_),
      tensor_(find_channel(c.channels, tensor_name)) {
  Communicator* const group = c.mesh.group("tensor");
  for (const OwnedPart<T>& part : parts_) {
    const ParameterLayout& layout = part.parameter->layout;
    std::vector<std::pair<AxisRange, AxisRange>>& all =
        blocks_.emplace_back(1, std::pair(layout.rows(), layout.columns()));
    if (!group) continue;
    const std::pair<AxisRange, AxisRange> own = all.front();
    all.resize(static_cast<std::size_t>(group->size()));
    group->all_gather(&own, sizeof own, all.data())->wait();
  }
}

template <typename T>
T* WholeMatrix<T>::gather(std::size_t i, ConstTensorView piece, std::int64_t step, double& waited_us) {
  const OwnedPart<T>& part = parts_[i];
  const ParameterLayout& layout = part.parameter->layout;
  MessageKey key;
  key.tensor = tensor_id("momentum " + part.parameter->name());
  key.step = step;
  if (part.sharded) {
    local_.reshape(layout.local(), dtype_of<T>);
    local_.fill_zero();  // what a codec of changes (+ef21) begins with must be the same on all ranks
    shards_.wait(shards_.gather(part.unit, key, piece, local_.view()), "momentum", waited_us);
    piece = local_.view();
  }
  T* const whole = shaped<T>(whole_, layout.global());
  if (!tensor_) {
    copy_bytes(whole, piece.data(), piece.bytes());
    return whole;
  }
  const std::int64_t n = piece.elements();
  const T* blocks = shaped<T>(pieces_, {tensor_->size(), n});
  Operation gathering =
      tensor_->at(part.unit, stage_, key, n).all_gather(piece.reshaped({1, n}), pieces_.view(), key);
  const std::int64_t begin = RankClock::now_ns();
  gathering.wait();
  waited_us += static_cast<double>(RankClock::now_ns() - begin) * 1e-3;
  for (const auto& [rows, columns] : blocks_[i])
    for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row, blocks += columns.count)
      std::copy_n(blocks, columns.count, whole + row * layout.global().columns() + columns.begin);
  return whole;
}

template <typename T>
void WholeMatrix<T>::take(std::size_t i, double factor, T* to) const {
  const OwnedPart<T>& part = parts_[i];
  const ParameterLayout& layout = part.parameter->layout;
  const AxisRange columns = layout.columns();
  const T* const whole = data_of<T>(whole_);
  for (std::int64_t row = 0; row < part.rows.count; ++row) {
    const T* const from =
        whole + (layout.rows().begin + part.rows.first + row) * layout.global().columns() + columns.begin;
    for (std::int64_t j = 0; j < columns.count; ++j) *to++ = static_cast<T>(factor) * from[j];
  }
}

template class WholeMatrix<float>;
template class WholeMatrix<double>;

}  // namespace thinwire
