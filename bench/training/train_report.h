// What a person sees of a training run: a line that moves while it runs, a table at its end.
#pragma once

#include <string>

#include "bench/training/train_tables.h"
#include "core/clock.h"

namespace thinwire::bench {

/// On a terminal one line that renews itself; elsewhere, in a log file, one a minute, and every tenth step at THINWIRE_LOG=debug.
class TrainProgress {
 public:
  /// `shows`: on one rank only. `silence_s`: a log file gets a line after so many seconds without one.
  TrainProgress(bool shows, const TrainConfig& config, double silence_s = 60);
  ~TrainProgress();
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;
  /// `validation`: loss after this step, NaN where it was not validated.
  void show(const StepRecord& step, double validation);

 private:
  bool shows_, terminal_, timed_, wrote_ = false;
  std::int64_t steps_, first_step_ = -1;
  Stopwatch since_first_, since_told_;
  double silence_s_;
  double validation_;
};

/// "step 12 of 100  loss 2.345  validation 2.400  5432 tokens/s  ETA 0:42"; a loss that is NaN is left out.
std::string progress_line(std::int64_t done, std::int64_t steps, double loss, double validation,
                          double tokens_per_second, double eta_seconds);

/// Validation loss and perplexity, step time, bytes on the link, share of communication, time and bytes by
/// traffic class.
std::string describe_run(const TrainRun& run, const results::TrainingTables& tables, const std::string& data_remark);

}  // namespace thinwire::bench
