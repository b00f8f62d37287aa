// Where a rank's computing time goes. Model code hands every piece of work between two communications to a clock, which runs it as
// it comes, alone on the machine, or replaces it by a wait of the duration measured alone (docs/measuring.md, "Timed compute").
// On a device work is queued, and runs as it comes: its times are the device's own, known after settle().
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "collectives/process/node_info.h"
#include "collectives/channel/traffic.h"
#include "core/clock.h"
#include "core/process/trace.h"
#include "models/compute/device_sections.h"

namespace thinwire {

class ComputeClock {
 public:
  /// `name` is a literal. Sections of equal name, layer and slice (at_slice) take equally long: their durations are pooled. `body` must not
  /// communicate. Under replay it does not run: buffers keep what the last real pass left there.
  template <typename Body>
  void run(const char* name, int layer, int micro, Body&& body) {
    if (mode_ == ComputeMode::replay) return replay(name, layer, micro);
    if (mode_ == ComputeMode::serial) {
      std::optional<MachineLock> alone;
      if (!joined_alone_) alone.emplace();
      remember(name, layer, timed(name, layer, micro, body));
      return;
    }
    if (!placement().on_host() && (!sections_ || paused_)) return body();
    if (!placement().on_host()) {
      sections_->begin({name, layer, micro, {charged_[0], charged_[1]}});
      body();
      sections_->end();
      return;
    }
    timed(name, layer, micro, body);
  }
  /// Sections on a device are timed from now on. Whoever asks for it calls settle() step by step.
  void measure_devices() { sections_ = std::make_unique<DeviceSections>(); }
  /// Sections on a device go unseen while one of these lives: their work is recorded, not run.
  class Pause {
   public:
    explicit Pause(ComputeClock& clock) : clock_(clock) { clock_.paused_ = true; }
    ~Pause() { clock_.paused_ = false; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ComputeClock& clock_;
  };
  /// On a device: waits for what was queued and counts it. Elsewhere nothing.
  void settle();
  /// From now on the durations of sections are added to these sums (microseconds), too; null: to none. On a device they are complete
  /// after settle().
  void charge(double* sum = nullptr, double* second = nullptr) { charged_ = {sum, second}; }
  ComputeMode mode() const { return mode_; }
  bool replays() const { return mode_ == ComputeMode::replay; }
  /// Entering serial forgets earlier durations.
  void set_mode(ComputeMode mode);
  /// Replay waits this many times as long as was measured: a processor of another speed.
  void set_scale(double scale) { scale_ = scale; }
  /// Replay: waits `us` now; until end_stated() sections take no time of their own. Elsewhere nothing.
  void begin_stated(const char* name, double us, int micro);
  void end_stated() { stated_ = false; }
  /// Called by every wait of this clock and by progress(): lets transfers under way go on, and says whether any is left. What it computes itself
  /// (codec work of a message) prolongs the wait: the rank has one core for both.
  void progress_by(std::function<bool()> transfers) { transfers_ = std::move(transfers); }
  void progress() {
    if (transfers_) transfers_();
  }
  /// Sleeps until this rank's time (RankClock) reaches `deadline_ns`, while transfers go on.
  void wait_until(std::int64_t deadline_ns);
  /// From now on sections belong to this slice of a micro-batch: slices differ in tokens and context, so in time.
  void at_slice(int slice) { slice_ = slice; }
  /// Sections from here to end_joined() have nothing between them that is sent. Replay: they are waited for together, at the end; one wait
  /// overshoots once where many overshoot each (tens of microseconds, as long as a section of a short slice). Serial: the rank has the machine
  /// for all of them; other ranks' sections in between would empty its caches, which those of a stage with a core of its own do not. Else nothing.
  void begin_joined();
  void end_joined();
  /// Microseconds spent in sections since the last reset.
  double total_us() const { return static_cast<double>(total_ns_) * 1e-3; }
  void reset() { total_ns_ = 0; }

 private:
  template <typename Body>
  std::int64_t timed(const char* name, int layer, int micro, Body&& body) {
    const std::int64_t begin = now_ns();
    body();
    const std::int64_t end = now_ns();
    count(end - begin);
    Trace::add(TraceCategory::compute, name, begin, end, layer, micro);
    return end - begin;
  }
  void count(std::int64_t ns) {
    total_ns_ += ns;
    for (double* sum : charged_)
      if (sum) *sum += static_cast<double>(ns) * 1e-3;
  }
  void replay(const char* name, int layer, int micro);
  void remember(const char* name, int layer, std::int64_t ns);

  ComputeMode mode_ = ComputeMode::real;
  double scale_ = 1;
  bool stated_ = false, paused_ = false;
  bool joined_ = false;
  std::optional<MachineLock> joined_alone_;
  std::int64_t total_ns_ = 0, joined_end_ns_ = 0;
  int slice_ = 0;
  std::function<bool()> transfers_;
  std::array<double*, 2> charged_ = {};
  std::unique_ptr<DeviceSections> sections_;
  std::map<std::tuple<std::string_view, int, int>, std::vector<double>> durations_ns_;
};

}  // namespace thinwire
