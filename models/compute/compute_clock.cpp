#include "models/compute/compute_clock.h"

#include <string>

#include "collectives/channel/codec_timer.h"
#include "collectives/process/rank_clock.h"
#include "collectives/process/waiter.h"
#include "core/error.h"
#include "core/statistics.h"

namespace thinwire {

void ComputeClock::set_mode(ComputeMode mode) {
  if (mode == ComputeMode::serial && mode_ != ComputeMode::serial) durations_ns_.clear();
  mode_ = mode;
}

void ComputeClock::remember(const char* name, int layer, std::int64_t ns) {
  durations_ns_[{name, layer, slice_}].push_back(static_cast<double>(ns));
}

void ComputeClock::begin_stated(const char* name, double us, int micro) {
  if (!replays()) return;
  const std::int64_t begin = RankClock::now_ns(), wait = static_cast<std::int64_t>(us * 1e3);
  wait_until(begin + wait);
  count(wait);
  Trace::add(TraceCategory::compute, name, begin, RankClock::now_ns(), -1, micro);
  stated_ = true;
}

void ComputeClock::replay(const char* name, int layer, int micro) {
  if (stated_) return;
  const auto found = durations_ns_.find({name, layer, slice_});
  if (found == durations_ns_.end())
    throw UsageError("no duration of '" + std::string(name) + "' was measured; run a step under ComputeMode::serial first");
  const std::int64_t wait = static_cast<std::int64_t>(scale_ * median(found->second));
  count(wait);
  if (joined_) {
    Trace::add(TraceCategory::compute, name, joined_end_ns_, joined_end_ns_ + wait, layer, micro);
    joined_end_ns_ += wait;
    return;
  }
  const std::int64_t begin = RankClock::now_ns();
  wait_until(begin + wait);
  Trace::add(TraceCategory::compute, name, begin, RankClock::now_ns(), layer, micro);
}

void ComputeClock::wait_until(std::int64_t deadline_ns) {
  Waiter waiter;
  while (transfers_) {
    const std::int64_t computed = CodecTimer::replayed_ns();
    const bool any_left = transfers_();
    deadline_ns += CodecTimer::replayed_ns() - computed;
    if (!any_left || now_ns() >= deadline_ns) break;
    waiter.nap(deadline_ns);
  }
  RankClock::sleep_until_ns(deadline_ns);
}

void ComputeClock::settle() {
  if (!sections_) return;
  for (const DeviceSections::Section& s : sections_->settle()) {
    total_ns_ += s.end_ns - s.begin_ns;
    Trace::add(TraceCategory::compute, s.name, s.begin_ns, s.end_ns, s.layer, s.micro);
  }
}

void ComputeClock::begin_joined() {
  joined_ = replays();
  if (mode_ == ComputeMode::serial) joined_alone_.emplace();
  joined_end_ns_ = RankClock::now_ns();
}

void ComputeClock::end_joined() {
  if (joined_) wait_until(joined_end_ns_);
  joined_ = false;
  joined_alone_.reset();
}

}  // namespace thinwire
