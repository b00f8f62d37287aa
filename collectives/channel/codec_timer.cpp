#include "collectives/channel/codec_timer.h"

#include <cstring>

#include "collectives/process/rank_clock.h"
#include "core/error.h"
#include "core/statistics.h"

namespace thinwire {

std::int64_t CodecTimer::replayed_ns_ = 0;

void CodecTimer::set_mode(ComputeMode mode) {
  if (mode == ComputeMode::serial && mode_ != ComputeMode::serial) memory_.clear();
  mode_ = mode;
}

SectionMemory& CodecTimer::find(const SectionKey& key) {
  const auto found = memory_.find(key);
  if (found == memory_.end()) {
    throw UsageError(
        "replay has no remembered duration of this operation; run it with ComputeMode::serial first, "
        "with the same kind of operation and shape");
  }
  return found->second;
}

void CodecTimer::remember(const SectionKey& key, const SectionTime& time, std::int64_t value) {
  SectionMemory& memory = memory_[key];
  memory.wall_us.push_back(time.wall_us);
  memory.cpu_us.push_back(time.cpu_us);
  memory.value = value;
}

SectionTime CodecTimer::replay(const SectionKey& key, std::int64_t& value) {
  const SectionMemory& memory = find(key);
  const SectionTime time{scale_ * median(memory.wall_us), scale_ * median(memory.cpu_us)};
  value = memory.value;
  const auto length = static_cast<std::int64_t>(time.wall_us * 1e3);
  RankClock::sleep_until_ns(RankClock::now_ns() + length);
  replayed_ns_ += length;
  return time;
}

void CodecTimer::remember_round(const SectionKey& key, const Round& round) {
  SectionMemory& memory = memory_[key];
  memory.send.reserve(round.send.size());
  memory.receive.reserve(round.receive.size());
  if (!round.send.empty()) std::memcpy(memory.send.data(), round.send.data(), round.send.size());
  memory.round = {{memory.send.data(), round.send.size()},
                  {memory.receive.data(), round.receive.size()},
                  round.dtype,
                  round.op};
}

const Round& CodecTimer::remembered_round(const SectionKey& key) {
  return find(key).round;
}

}  // namespace thinwire
