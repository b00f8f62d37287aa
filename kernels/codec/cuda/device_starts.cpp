#include "kernels/codec/cuda/device_starts.h"

#include <limits>
#include <utility>
#include <vector>

#include "kernels/codec/state.h"
#include "kernels/codec/payload/wire_values.h"

namespace thinwire {

DeviceStarts::Start* DeviceStarts::find(const MessageKey& key, std::int64_t columns, std::int64_t rank) {
  const auto found = starts_.find(key.state_key());
  if (found == starts_.end() || found->second.rank != rank || rank == 0) return nullptr;
  if (found->second.columns != columns)
    throw UsageError("powersgd: " + text_of(key) + " has " + std::to_string(columns) + " columns, its warm start has " +
                     std::to_string(found->second.columns) + "; give different tensors different names (message keys)");
  return &found->second;
}

DeviceStarts::Start& DeviceStarts::prepare(const MessageKey& key, std::int64_t columns, std::int64_t rank, const DeviceSeam& seam) {
  Start& start = starts_[key.state_key()];
  reserve(start, static_cast<std::size_t>(columns * rank), seam);
  return start;
}

// Device memory is given back by the seam's owner alone: a start that grows leaves its old memory to it. Shapes settle with the first step.
void DeviceStarts::reserve(Start& start, std::size_t count, const DeviceSeam& seam) {
  if (start.capacity >= count) return;
  start.next = static_cast<float*>(seam.allocate(count * sizeof(float)));
  start.previous = static_cast<float*>(seam.allocate(count * sizeof(float)));
  start.capacity = count;
}

void DeviceStarts::save_state(StateWriter& to, const DeviceSeam& seam) const {
  TW_ASSERT(seam.read != nullptr);
  std::vector<float> values;
  for (const auto& [key, start] : starts_) {
    if (start.rank == 0) continue;
    values.resize(static_cast<std::size_t>(start.columns * start.rank));
    seam.read(values.data(), start.next, values.size() * sizeof(float));
    to.put("start", key, Shape{start.columns, start.rank}, values);
  }
}

void DeviceStarts::load_state(StateReader& from, std::int64_t most_rank, const DeviceSeam& seam) {
  for (auto& [key, start] : starts_) start.rank = 0;
  for (const StateEntry* entry : from.take("start", DType::f32)) {
    if (entry->shape.rank() != 2 || entry->shape[1] > most_rank)
      throw CorruptData("powersgd: a saved start has shape " + entry->shape.to_string() + ", not [columns, at most " + std::to_string(most_rank) +
                        "]; use another checkpoint, or reset the codec's state");
    Start& start = starts_[entry->key];
    const std::vector<float> values = entry->floats();
    reserve(start, values.size(), seam);
    seam.write(start.next, values.data(), values.size() * sizeof(float));
    start.columns = entry->shape[0];
    start.rank = entry->shape[1];
    start.has_previous = false;
  }
}

}  // namespace thinwire
