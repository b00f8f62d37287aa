// Merges the finished cells of a result folder into one tidy file.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/record.h"

namespace thinwire::results {

struct CollectOptions {
  bool allow_mixed_corpus = false;
  std::int64_t steps_of_at_most = std::numeric_limits<std::int64_t>::max();  ///< /training_steps has nothing of longer trainings: it is most of their size, and what claims of losses rest on is elsewhere
  std::int64_t losses_of_at_most = std::numeric_limits<std::int64_t>::max();  ///< /training_curve has only the validated steps of longer trainings that validate: what a race to a loss reads
  /// Folders of this machine and the word that stands for each in commands and reasons, the longest first: for a file that others read.
  std::vector<std::pair<std::string, std::string>> words_for_folders = {};
  /// When not empty: only these cells (a study's), in this order. Else every record of the folder, sorted.
  std::vector<std::string> cell_ids = {};
};

struct CollectReport {
  std::string path;                  ///< OUT/collected.h5
  std::vector<CellRow> rows;         ///< what was collected
  std::vector<std::string> damaged;  ///< "file: reason" of records left out
  std::vector<std::string> missing;  ///< ids of `cell_ids` without a record
  std::vector<std::string> mixed;    ///< programs of which more than one build measured: their rows are not alike
  std::size_t samples = 0;
};

/// Rows that other programs measured in the same run (bench/peers): OUT/rows/NAME.jsonl, a JSON object per line in the columns of /cells. They carry no
/// seal; a line that is no row is reported as damaged. Taken where the whole folder is collected.
///
/// Tables called race* of OUT/race/race.h5, which `race run` wrote, join the file as they are; the same condition.
///
/// Writes OUT/collected.h5: /cells, /samples, /provenance, /links, the tables of training runs (empty where none was
/// run) and, when OUT/capture.h5 holds them, /spectra, /magnitudes and /training. Appears complete or not at all. Records whose seal does not hold, or whose content
/// is not that of their file name, are left out and reported. Throws UsageError when rows stem from different
/// corpora (their hashes and cell counts are named) unless allowed, EnvironmentError when OUT does not exist.
CollectReport collect(const std::string& out, const CollectOptions& options = {});

/// Ids of the cells that have a record in OUT/cells, sorted.
std::vector<std::string> recorded_cells(const std::string& out);

/// The cells of a collected file by id, as they were recorded, for whoever judges them again: rows, samples, tables of training runs and provenance.
/// Parameters are not kept apart in such a file, and calibrations of links are shared between cells: both are empty. CorruptData for a damaged file,
/// or one of another schema.
std::map<std::string, CellRecord> records_in(const std::string& collected);

}  // namespace thinwire::results
