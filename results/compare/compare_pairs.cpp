#include "results/compare/compare_pairs.h"

#include <cmath>

#include "results/compare/compare_statistics.h"

namespace thinwire::results {
namespace {

/// Per repetition the slowest rank; ranks that did not take part have zero.
using Laps = std::map<std::int64_t, std::pair<double, double>>;  // repetition -> codec, baseline

double value_of(const SampleRow& sample, Metric metric) {
  switch (metric) {
    case Metric::encode:
      return sample.encode_us;
    case Metric::transfer:
      return sample.transfer_us;
    case Metric::decode:
      return sample.decode_us;
    default:
      return sample.total_us;
  }
}

std::vector<double> logs_of(const Laps& laps, Metric metric) {
  std::vector<double> logs;
  for (const auto& [repetition, lap] : laps) {
    if (metric != Metric::speedup && lap.first > 0) logs.push_back(std::log(lap.first));
    // Of a baseline that cells share, laps are spread among theirs (bench/collective): the pair of one number takes out what lasted, such as a slower clock, not what came and went.
    if (metric == Metric::speedup && lap.first > 0 && lap.second > 0)
      logs.push_back(std::log(lap.first) - std::log(lap.second));
  }
  return logs;
}

std::string differing_columns(const CellRow& one, const CellRow& other) {
  std::string names;
  for (const std::string& name : key_columns())
    if (const auto& column = cell_column(name, ""); text_of(one, column) != text_of(other, column))
      names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "no column that describes a cell" : names;
}

}  // namespace

void gather(std::map<std::string, Unit>& units, std::vector<std::string>& order,
            const std::vector<CollectedFile>& files, bool is_a, const Keys& keys,
            const CompareOptions& options) {
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::map<std::pair<std::string, std::string>, Laps> laps;
    for (const SampleRow& sample : files[f].samples) {
      const double value = value_of(sample, sample.baseline != 0 ? Metric::total : options.metric);
      auto& [codec, baseline] = laps[{sample.cell_id, sample.traffic}][sample.repetition];
      double& slowest = sample.baseline != 0 ? baseline : codec;
      slowest = std::max(slowest, value);
    }
    // Samples name cell and traffic class only: where a cell has several rows of a class (training runs),
    // they tell nothing apart.
    std::map<std::pair<std::string, std::string>, int> rows;
    for (const CellRow& row : files[f].cells) ++rows[{row.cell_id, row.traffic}];
    for (const CellRow& row : files[f].cells) {
      if (rows[{row.cell_id, row.traffic}] > 1) laps.erase({row.cell_id, row.traffic});
      const std::string key = keys.of(row);
      const auto [at, is_new] = units.try_emplace(key);
      if (is_new) order.push_back(key);
      Unit& unit = at->second;
      Run run{&row, logs_of(laps[{row.cell_id, row.traffic}], options.metric), 0};
      run.scale = robust_scale(run.logs);
      const auto [old, added] =
          (is_a ? unit.a : unit.b)
              .try_emplace({keys.by_seed ? std::to_string(row.seed) : "", f}, std::move(run));
      if (!added)
        throw UsageError(files[f].path +
                         ": several rows agree in all columns that pair cells and differ in " +
                         differing_columns(*old->second.row, row) +
                         "; match by these too, or choose rows with --where-a and --where-b");
      const CellRow*& first = is_a ? unit.first_a : unit.first_b;
      if (first == nullptr) first = &row;
    }
  }
}

Verdict exact_verdict(const CellRow& a, const CellRow& b, const Keys& keys, const CompareOptions& options,
                      ComparedCell& cell) {
  if (delivered(a) != delivered(b) || (!delivered(a) && a.status != b.status)) {
    cell.worse = !delivered(b);
    cell.note = a.status + " in A, " + b.status + " in B" +
                (b.reason.empty() && a.reason.empty() ? "" : ": " + (b.reason.empty() ? a.reason : b.reason));
    return Verdict::status_differs;
  }
  if (!keys.has("codec") || !keys.has("tensor")) return Verdict::same;  // two codecs are expected to differ
  for (const auto& [name, member] : {std::pair{"dense_bytes", &CellRow::dense_bytes},
                                     {"payload_bytes", &CellRow::payload_bytes},
                                     {"link_bytes", &CellRow::link_bytes},
                                     {"link_bytes_max", &CellRow::link_bytes_max},
                                     {"received_bytes", &CellRow::received_bytes}})
    if (a.*member != b.*member) {
      cell.worse = b.*member > a.*member;
      cell.note = std::string(name) + " " + std::to_string(a.*member) + " in A, " +
                  std::to_string(b.*member) + " in B";
      return Verdict::bytes_differ;
    }
  // Below 1e-6 an error is rounding, which libraries may do differently.
  const double ea = a.relative_l2, eb = b.relative_l2;
  const bool only_one = std::isnan(ea) != std::isnan(eb);
  if (only_one || std::abs(eb - ea) > options.error_tolerance * std::max(std::abs(ea), std::abs(eb)) + 1e-6) {
    cell.worse = only_one || eb > ea;
    cell.note =
        "relative_l2 " + to_text(ParameterValue(ea)) + " in A, " + to_text(ParameterValue(eb)) + " in B";
    return Verdict::error_differs;
  }
  return Verdict::same;
}

}  // namespace thinwire::results
