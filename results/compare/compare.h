// Two collected files against each other: cells are paired, and each pair gets a verdict from its raw samples
// (docs/comparing.md says how, and what the numbers can and cannot tell).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/row.h"

namespace thinwire::results {

/// What of a collected.h5 is compared.
struct CollectedFile {
  std::string path, sha256;
  std::vector<CellRow> cells;
  std::vector<SampleRow> samples;
  std::vector<Provenance> launches;
};
/// Throws EnvironmentError when it is not there, CorruptData when it is damaged or of another schema version.
CollectedFile read_collected(const std::string& path);
/// Keeps the rows that every clause of 'codec=topk and tp=4' holds for: column=value or column!=value, with *
/// and ?; a value also matches by its name alone (topk for topk:fraction=0.1). UsageError names an unknown
/// column, or says that nothing is left.
void select_rows(CollectedFile& file, const std::string& where);

enum class Verdict {
  faster,
  slower,
  same,
  undecided,
  only_in_a,
  only_in_b,
  status_differs,
  bytes_differ,
  error_differs
};
/// "faster", "slower", "same", "undecided", "only in A", "only in B", "status differs", "bytes differ",
/// "error differs".
const char* name_of(Verdict verdict);

enum class Metric { total, encode, transfer, decode, speedup };

struct CompareOptions {
  Metric metric = Metric::total;
  double threshold = 0.05;  ///< a change below this fraction is none
  double error_rate =
      0.05;  ///< false discovery rate of faster and slower; 1 - this is the level of the intervals
  double run_spread =
      -1;  ///< standard deviation of a run's logarithmic time between runs; negative: estimated from the data
  double error_tolerance = 0.01;  ///< relative change of relative_l2 that counts
  /// Columns of /cells that must agree; empty: cell_id, traffic, operation, codec, protocol, tensor. `seed`,
  /// when among them, pairs runs instead of separating cells.
  std::vector<std::string> match = {};
};
/// All columns that describe what was measured, for CompareOptions::match.
const std::vector<std::string>& key_columns();

struct ComparedCell {
  Verdict verdict = Verdict::undecided;
  Verdict time = Verdict::undecided;  ///< of the times alone: faster, slower, same or undecided
  bool worse = false;  ///< counts for the exit status: slower, or a status, bytes or error that got worse
  CellRow key;         ///< the row of A, or of B where A has none
  std::string status_a, status_b;
  double a_us = not_measured, b_us = not_measured;  ///< median over runs of the median time; for
                                                    ///< Metric::speedup of time / baseline's time
  double change = not_measured;                     ///< B / A - 1
  double low = not_measured, high = not_measured;   ///< interval of the change
  double p_value = not_measured;                    ///< adjusted for all cells compared
  std::int64_t pairs = 0, samples_a = 0, samples_b = 0;
  std::string note;
};

/// Cells of one program and link: how they moved together, and how far apart runs are.
struct CompareGroup {
  std::string program, link;
  std::int64_t cells = 0;
  double common_change = not_measured;  ///< median of the changes
  double run_spread = not_measured;     ///< used: standard deviation of a run's logarithmic time
  std::string source;                   ///< where it is from
};

struct Comparison {
  CompareOptions options;
  std::vector<std::string> a, b;    ///< "path (commit, cpu)" of every file
  std::vector<ComparedCell> cells;  ///< in the order of A, then what only B has
  std::vector<CompareGroup> groups;
  std::int64_t count(Verdict verdict) const;
  bool any_worse() const;
};

/// Compares the runs of side A with those of side B: one file each, or several that pair in order. Throws
/// UsageError for an unknown column in `match`, or when several rows of one file agree in all of them (naming
/// the columns in which they differ).
Comparison compare(const std::vector<CollectedFile>& a, const std::vector<CollectedFile>& b,
                   const CompareOptions& options);

/// For the terminal: counts by verdict, groups, and the cells that are not the same (`all`: every cell).
std::string as_text(const Comparison& comparison, bool all);
/// One JSON object: options, files, groups, cells; what was not measured is null.
std::string as_json(const Comparison& comparison);
/// One self-contained page: no script, no download.
std::string as_html(const Comparison& comparison);

}  // namespace thinwire::results
