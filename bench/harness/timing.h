// Repetitions: warm up by time and count, keep every sample, stop on relative noise or budget.
#pragma once

#include <span>
#include <vector>

#include "bench/harness/bench_program.h"
#include "core/statistics.h"

namespace thinwire::bench {

/// When to stop. Warm-up ends when both its count and its time are reached; measuring ends when there are
/// `min_repetitions`, `min_seconds` have passed and the relative noise (inter-quartile range / median) is at
/// most `noise`, and at the latest at `max_repetitions` or `max_seconds`.
struct StopRule {
  int warmup_repetitions = 1;
  double warmup_seconds = 0.01;
  int min_repetitions = 5, max_repetitions = 1000;
  double min_seconds = 0.05, max_seconds = 2;
  double noise = 0.05;
};

/// From the parameters --repetitions (0: by the rule; n: exactly n), --min-time, --max-time (seconds) that
/// every bench has.
StopRule stop_rule(const CellParameters& parameters);

/// for (RepetitionLoop loop(rule, &world); loop.next();) { measure; loop.add(microseconds); }
/// With a communicator rank 0 decides and tells the others: all ranks do equally many repetitions.
class RepetitionLoop {
 public:
  explicit RepetitionLoop(StopRule rule, Communicator* world = nullptr);
  /// Whether another repetition is wanted; collective when there is a communicator.
  bool next();
  /// The current repetition only warms up: add() drops its sample; the caller drops what else it measures.
  bool warming_up() const { return warming_up_; }
  /// Index of the current measured repetition, from 0.
  int repetition() const { return static_cast<int>(samples_.size()); }
  /// Time of the current repetition, microseconds: the series that the rule judges.
  void add(double microseconds);
  const std::vector<double>& samples() const { return samples_; }

 private:
  bool wanted();
  StopRule rule_;
  Communicator* world_;
  std::vector<double> samples_;
  std::int64_t start_ns_ = 0, measure_ns_ = 0;
  int warmups_ = 0;
  bool warming_up_ = true;
};

/// Samples of a body that runs on this rank alone, in microseconds.
std::vector<double> measure(const StopRule& rule, const std::function<void()>& body);

/// Samples of all ranks [size][n], rank-major, on every rank; `mine` has equal length everywhere. Collective.
std::vector<double> gather_samples(Communicator& world, std::span<const double> mine);
/// Element-wise maximum over ranks of gathered samples: the time of a collective per iteration.
std::vector<double> max_over_ranks(std::span<const double> gathered, int ranks);

/// 1e9 bytes per second; NaN when the time is not positive.
double gigabytes_per_second(double bytes, double microseconds);

}  // namespace thinwire::bench
