// What a training cell that was asked to end early leaves for its next start: a checkpoint, and the steps taken so far, so that the
// record of the cell in the end holds all of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/training/train_tables.h"

namespace thinwire::bench {

/// "kept:ID" as the path of what that cell kept (results/kept_state.h), other values of --resume as they are. `folder`: BenchContext::resume. UsageError outside of a sweep, whose folder alone has kept states.
std::string resume_path(const std::string& folder, const std::string& resume);

class TrainResume {
 public:
  using Metrics = std::map<std::int64_t, std::vector<Evaluation::Metric>>;  ///< after the step of this number
  /// FOLDER/<cell_id>.h5 and .steps.json; an empty folder: nothing is kept.
  TrainResume(std::string folder, const std::string& cell_id);

  bool enabled() const { return !checkpoint_.empty(); }
  const std::string& checkpoint() const { return checkpoint_; }

  /// Collective. The steps first: the checkpoint that they belong to is never newer than they are.
  void save(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::vector<StepRecord>& steps,
            const std::map<std::int64_t, double>& validation, const Metrics& metrics);

  /// Collective. Gives `trainer`, fresh from make(), the saved state and fills `validation` and `metrics`; returns what to tell, empty when there is
  /// nothing to go on from. State that cannot be used (damaged, of other settings) is left alone with a remark: the cell starts anew.
  std::string load(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, std::map<std::int64_t, double>& validation, Metrics& metrics);

  /// Rank 0: the steps of rank `rank` before the early end, as text.
  std::string earlier(std::size_t rank) const { return rank < earlier_.size() ? earlier_[rank] : std::string(); }

  /// The cell has its record: nothing is left to go on from. Any one rank.
  void remove() const;

 private:
  std::string checkpoint_, steps_;
  std::vector<std::string> earlier_;  ///< by rank, on rank 0
};

}  // namespace thinwire::bench
