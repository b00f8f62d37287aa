#include "bench/harness/timing.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"

namespace thinwire::bench {

StopRule stop_rule(const CellParameters& parameters) {
  StopRule rule;
  if (parameters.has("min-time")) rule.min_seconds = parameters.real("min-time");
  if (parameters.has("max-time")) rule.max_seconds = parameters.real("max-time");
  if (!(rule.min_seconds >= 0 && rule.max_seconds >= rule.min_seconds))
    throw UsageError("--min-time " + parameters.text("min-time") + " and --max-time " + parameters.text("max-time") +
                     " contradict each other; 0 <= min-time <= max-time is needed");
  const std::int64_t repetitions = parameters.has("repetitions") ? parameters.integer("repetitions") : 0;
  if (repetitions < 0 || repetitions > 10'000'000) throw UsageError("--repetitions " + std::to_string(repetitions) + " is out of range; 0 means: until the noise is small");
  if (repetitions > 0) {
    rule.min_repetitions = rule.max_repetitions = static_cast<int>(repetitions);
    rule.min_seconds = 0;
    rule.max_seconds = INFINITY;
    rule.warmup_seconds = 0;
  }
  return rule;
}

RepetitionLoop::RepetitionLoop(StopRule rule, Communicator* world) : rule_(rule), world_(world), start_ns_(now_ns()) {}

bool RepetitionLoop::wanted() {
  const auto count = static_cast<int>(samples_.size());
  if (count >= rule_.max_repetitions) return false;
  const double seconds = static_cast<double>(now_ns() - measure_ns_) * 1e-9;
  if (count >= 1 && seconds >= rule_.max_seconds) return false;
  if (count < rule_.min_repetitions || seconds < rule_.min_seconds) return true;
  return summarize(samples_).relative_noise() > rule_.noise;
}

bool RepetitionLoop::next() {
  const double seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
  enum Decision : std::uint8_t { stop, warm, measured };
  std::uint8_t decision = stop;
  if (warming_up_ && (warmups_ < rule_.warmup_repetitions || seconds < rule_.warmup_seconds)) {
    decision = warm;
  } else {
    if (warming_up_) measure_ns_ = now_ns();
    decision = wanted() ? measured : stop;
  }
  if (world_ != nullptr) world_->broadcast(&decision, 1, 0)->wait();
  warming_up_ = decision == warm;
  warmups_ += warming_up_;
  return decision != stop;
}

void RepetitionLoop::add(double microseconds) {
  if (!warming_up_) samples_.push_back(microseconds);
}

std::vector<double> measure(const StopRule& rule, const std::function<void()>& body) {
  RepetitionLoop loop(rule);
  while (loop.next()) {
    const Stopwatch watch;
    body();
    loop.add(static_cast<double>(watch.elapsed_ns()) * 1e-3);
  }
  return loop.samples();
}

std::vector<double> gather_samples(Communicator& world, std::span<const double> mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(mine.data(), static_cast<std::int64_t>(mine.size_bytes()), all.data())->wait();
  return all;
}

std::vector<double> max_over_ranks(std::span<const double> gathered, int ranks) {
  const std::size_t n = gathered.size() / static_cast<std::size_t>(ranks);
  std::vector<double> result(gathered.begin(), gathered.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = n; i < gathered.size(); ++i) result[i % n] = std::max(result[i % n], gathered[i]);
  return result;
}

double gigabytes_per_second(double bytes, double microseconds) { return microseconds > 0 ? bytes / microseconds * 1e-3 : std::nan(""); }

}  // namespace thinwire::bench
