// What PowerSGD keeps per tensor (kernels/codec/codecs/powersgd.cpp), in device memory: the start of the next training message, and that of the last
// one for its recomputation. Codecs of different shapes may share it: what belongs together says MessageKey::state_key.
#pragma once

#include <cstdint>
#include <map>

#include "kernels/codec/codec.h"
#include "kernels/codec/cuda/device_seam.h"

namespace thinwire {

class DeviceStarts {
 public:
  struct Start {
    std::int64_t columns = 0, rank = 0;  ///< columns of all matrices of a stack; rank 0: no message yet
    std::int64_t step = 0;
    std::int32_t micro_batch = 0;
    bool has_previous = false;
    std::size_t capacity = 0;  ///< floats
    float *next = nullptr, *previous = nullptr;
  };

  /// Null where no training message of this tensor and rank has gone through. UsageError when it had another number of columns.
  Start* find(const MessageKey& key, std::int64_t columns, std::int64_t rank);
  /// The same, with room for [columns, rank] and without regard to what was there.
  Start& prepare(const MessageKey& key, std::int64_t columns, std::int64_t rank, const DeviceSeam& seam);

  /// As powersgd's state: checkpoints of host and device can be exchanged. Waits for queued work.
  void save_state(StateWriter& to, const DeviceSeam& seam) const;
  /// CorruptData where an entry is no start of at most this rank.
  void load_state(StateReader& from, std::int64_t most_rank, const DeviceSeam& seam);

 private:
  static void reserve(Start& start, std::size_t count, const DeviceSeam& seam);
  std::map<std::uint64_t, Start> starts_;
};

}  // namespace thinwire
