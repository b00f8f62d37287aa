// One start of a launch's program, watched to its end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run/failure_streak.h"
#include "experiments/run/launcher.h"
#include "experiments/run/progress.h"
#include "experiments/run/run_hooks.h"
#include "experiments/study/texts.h"
#include "results/journal.h"
#include "results/record.h"

namespace thinwire::sweep {

/// Which record lies at a path: two of them differ.
using RecordVersion = std::pair<std::uint64_t, std::int64_t>;

class Attempt {
 public:
  /// `number` counts the starts that these cells have had, this one included: 1, 2, ... with --retries.
  /// Records of the attempt carry it (THINWIRE_ATTEMPT in /provenance).
  Attempt(const RunPaths& paths, const RunHooks& hooks, const Launch& launch,
          std::span<const PlannedCell> cells, int number, Progress& progress, FailureStreak& streak, TextWatch& texts);

  enum class End { ended, hung, interrupted, too_many_failures };
  /// Starts the program, follows its journal, and returns when nothing of it is left.
  End watch();

  /// Cells without a new record, in the order given.
  std::vector<PlannedCell> unfinished(std::span<const PlannedCell> cells);
  /// Cells whose new record says FAILED or TIMEOUT, with its reason.
  const std::map<std::string, std::string>& failed_records() const { return failed_records_; }
  bool made_progress() const { return !finished_.empty(); }

  /// The cell to blame for an early end: the one whose failure the journal names first, else the last one
  /// started; empty: none.
  std::string blamed() const;
  /// What the journal or the log says of the end.
  std::string reason() const;
  /// Text behind "SKIPPED: " when the launcher gave up for lack of rights or means, else empty.
  std::string skip_reason() const;
  /// The program ended early because it was asked to, and keeps what it needs to go on: nobody is to blame.
  bool stopped_on_request() const;
  const std::string& id() const { return id_; }
  /// Adds to the launch's journal, once its program has ended.
  void note(const std::string& event, const PlannedCell& cell, const std::string& reason);

 private:
  std::string record_of(const PlannedCell& cell) const {
    return results::record_path(paths_.out, cell.cell_id);
  }
  bool note_if_finished(const PlannedCell& cell);
  bool read_journal();
  End end_early(Process& process);

  const RunPaths& paths_;
  const RunHooks& hooks_;
  const Launch& launch_;
  int number_;
  Progress& progress_;
  FailureStreak& streak_;
  TextWatch& texts_;
  std::string id_;
  results::JournalReader journal_;
  std::map<std::string, const PlannedCell*> cells_;
  std::map<std::string, RecordVersion> before_;  ///< of the records, when this began
  std::vector<std::string> started_;
  std::set<std::string> finished_;
  std::map<std::string, std::string> failed_records_;
  std::string failed_, failure_reason_;
  std::optional<Ending> ending_;
  std::optional<results::Journal> notes_;
  Stopwatch news_;
};

}  // namespace thinwire::sweep
