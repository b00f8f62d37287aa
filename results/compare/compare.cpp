#include "results/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/statistics.h"
#include "results/compare/compare_pairs.h"
#include "results/compare/compare_statistics.h"

namespace thinwire::results {
namespace {

// Variance of Hodges and Lehmann's estimate over that of the mean, for normal values.
constexpr double shift_variance = 1.0471975511965976;  // pi / 3
// A group of fewer cells does not tell how far apart runs are.
constexpr std::size_t least_group = 8;
// Standard deviation of a run where nothing tells it: assumed, and said so in the output.
constexpr double assumed_run_spread = 0.05;
// The residuals that the spread is made of are judged by it, too, and their common centre was taken from
// them: nominal degrees of freedom would promise 5 % and give 7 %. With this share the promise holds
// (tests/results/compare/test_compare.cpp).
constexpr double share_of_degrees = 0.6;
// Weight of the group's noise against a cell's own, in degrees of freedom.
constexpr double weight_of_group = 4;

/// Where a pair of runs stands before the spread between runs is known.
struct Estimate {
  std::vector<double> shifts;                 ///< one per pair
  double shift = 0, within = 0, degrees = 0;  ///< variance of one pair's shift from its samples
  bool identical = true;
};

std::int64_t whole(const std::vector<Run*>& runs) {
  std::int64_t sum = 0;
  for (const Run* run : runs) sum += static_cast<std::int64_t>(run->logs.size());
  return sum;
}

double median_time(const std::vector<Run*>& runs) {
  std::vector<double> medians;
  for (const Run* run : runs)
    if (!run->logs.empty()) medians.push_back(median(run->logs));
  return std::exp(median(medians));
}

/// Noise of one repetition by program and link: median over runs, over both sides.
std::map<GroupName, double> noise_of(std::map<std::string, Unit>& units) {
  std::map<GroupName, std::vector<double>> scales;
  for (auto& [key, unit] : units)
    for (auto* side : {&unit.a, &unit.b})
      for (const auto& [at, run] : *side)
        if (run.logs.size() > 1) scales[group_of(*run.row)].push_back(run.scale);
  std::map<GroupName, double> noise;
  for (const auto& [name, values] : scales) noise[name] = median(values);
  return noise;
}

/// Variance of a run's median-like centre, its own noise or what its group makes likely, whichever is more.
double variance_of(const Run& run, double group_noise) {
  const double own = run.scale * run.scale, df = degrees_of_scale(run.logs.size());
  const double moderated = (weight_of_group * group_noise * group_noise + df * own) / (weight_of_group + df);
  return shift_variance * std::max(own, moderated) / static_cast<double>(run.logs.size());
}

Estimate estimate_of(const std::vector<Run*>& a, const std::vector<Run*>& b, double group_noise) {
  Estimate e;
  std::vector<double> variances;
  double degrees = weight_of_group;
  for (std::size_t i = 0; i < a.size(); ++i) {
    e.identical = e.identical && a[i]->logs == b[i]->logs;
    e.shifts.push_back(shift_between(a[i]->logs, b[i]->logs));
    variances.push_back(variance_of(*a[i], group_noise) + variance_of(*b[i], group_noise));
    degrees += degrees_of_scale(a[i]->logs.size()) + degrees_of_scale(b[i]->logs.size());
  }
  e.shift = centre_of(e.shifts);
  e.within = median(variances);
  e.degrees = degrees;
  return e;
}

struct Spread {
  double variance = 0;  ///< of one pair's shift, beyond its samples
  double per_run = 0;
  double degrees = 1e6;  ///< how well it is known
  std::string source;
};

/// How far apart the shifts of pairs lie beyond what their samples explain.
Spread spread_from(const std::vector<double>& residuals, const std::vector<double>& within,
                   const std::string& source) {
  const double scale = robust_scale(residuals);
  const double variance = std::max(0.0, scale * scale - median(within));
  return {variance, std::sqrt(variance / 2), share_of_degrees * degrees_of_scale(residuals.size()), source};
}

/// How bad a pair of runs is before its times are looked at; greater is worse.
using Badness = std::tuple<bool, int, bool>;  // got worse; what differs; not delivered

Badness badness_of(const ComparedCell& judged, const CellRow& a, const CellRow& b) {
  const int what = judged.verdict == Verdict::status_differs  ? 3
                   : judged.verdict == Verdict::bytes_differ  ? 2
                   : judged.verdict == Verdict::error_differs ? 1
                                                              : 0;
  return {judged.worse, what, !(delivered(a) && delivered(b))};
}

/// Status of `shown`, or MISTRUSTED where it is OK and the link of a run whose times count was mistrusted.
std::string status_among(const std::vector<Run*>& runs, const CellRow& shown) {
  const bool mistrusted =
      std::any_of(runs.begin(), runs.end(), [](const Run* run) { return run->row->status == "MISTRUSTED"; });
  return mistrusted && shown.status == "OK" ? "MISTRUSTED" : shown.status;
}

}  // namespace

const char* name_of(Verdict verdict) {
  constexpr const char* names[] = {"faster",    "slower",         "same",         "undecided",    "only in A",
                                   "only in B", "status differs", "bytes differ", "error differs"};
  return names[static_cast<std::size_t>(verdict)];
}

std::int64_t Comparison::count(Verdict verdict) const {
  return std::count_if(cells.begin(), cells.end(),
                       [&](const ComparedCell& cell) { return cell.verdict == verdict; });
}

bool Comparison::any_worse() const {
  return std::any_of(cells.begin(), cells.end(), [](const ComparedCell& cell) { return cell.worse; });
}

Comparison compare(const std::vector<CollectedFile>& a, const std::vector<CollectedFile>& b,
                   const CompareOptions& options) {
  const Keys keys(options);
  std::map<std::string, Unit> units;
  std::vector<std::string> order;
  gather(units, order, a, true, keys, options);
  gather(units, order, b, false, keys, options);
  const std::map<GroupName, double> noise = noise_of(units);

  Comparison result;
  result.options = options;
  const auto describe = [](const std::vector<CollectedFile>& files, std::vector<std::string>& names) {
    for (const CollectedFile& file : files) {
      std::string from;
      for (const Provenance& launch : file.launches)
        if (const std::string one = launch.commit.substr(0, 10) +
                                    (launch.dirty_hash.empty() ? "" : "+changes") + ", " + launch.cpu;
            from.find(one) == std::string::npos)
          from += (from.empty() ? "" : "; ") + one;
      names.push_back(file.path + (from.empty() ? "" : " (" + from + ")"));
    }
  };
  describe(a, result.a);
  describe(b, result.b);

  // First what each cell's own samples say.
  struct Pending {
    std::size_t cell;
    Estimate estimate;
  };
  std::vector<Pending> pending;
  for (const std::string& key : order) {
    Unit& unit = units[key];
    ComparedCell cell;
    cell.key = *(unit.first_a != nullptr ? unit.first_a : unit.first_b);
    if (unit.first_a != nullptr) cell.status_a = unit.first_a->status;
    if (unit.first_b != nullptr) cell.status_b = unit.first_b->status;
    std::vector<Run*> runs_a, runs_b;
    const CellRow *row_a = nullptr, *row_b = nullptr;
    Badness worst{};
    for (auto& [at, run] : unit.a) {
      const auto other = unit.b.find(at);
      if (other == unit.b.end()) continue;
      const CellRow &of_a = *run.row, &of_b = *other->second.row;
      // A cell is as good as its worst pair of runs: of equally bad ones the first is shown.
      ComparedCell judged;
      judged.verdict = exact_verdict(of_a, of_b, keys, options, judged);
      const Badness badness = badness_of(judged, of_a, of_b);
      if (row_a == nullptr || badness > worst) {
        worst = badness;
        row_a = &of_a, row_b = &of_b;
        cell.verdict = judged.verdict, cell.worse = judged.worse, cell.note = judged.note;
      }
      if (run.logs.empty() || other->second.logs.empty() || !delivered(of_a) || !delivered(of_b)) continue;
      runs_a.push_back(&run);
      runs_b.push_back(&other->second);
    }
    if (row_a == nullptr) {
      const bool both = unit.first_a != nullptr && unit.first_b != nullptr;
      cell.verdict = both                      ? Verdict::undecided
                     : unit.first_a != nullptr ? Verdict::only_in_a
                                               : Verdict::only_in_b;
      if (both) cell.note = "no seed or file in common";
      result.cells.push_back(std::move(cell));
      continue;
    }
    cell.status_a = status_among(runs_a, *row_a);
    cell.status_b = status_among(runs_b, *row_b);
    cell.pairs = static_cast<std::int64_t>(runs_a.size());
    if (runs_a.empty()) {
      cell.time = delivered(*row_a) ? Verdict::undecided : Verdict::same;
      if (cell.note.empty())
        cell.note = delivered(*row_a) ? "no samples of this time in both" : row_a->status + " in both";
      if (cell.verdict == Verdict::same) cell.verdict = cell.time;
      result.cells.push_back(std::move(cell));
      continue;
    }
    cell.samples_a = whole(runs_a);
    cell.samples_b = whole(runs_b);
    cell.a_us = median_time(runs_a);
    cell.b_us = median_time(runs_b);
    const auto found = noise.find(group_of(*row_a));
    pending.push_back(
        {result.cells.size(), estimate_of(runs_a, runs_b, found == noise.end() ? 0 : found->second)});
    result.cells.push_back(std::move(cell));
  }

  // Then how far apart runs lie, by program and link.
  std::map<GroupName, std::vector<const Pending*>> groups;
  for (const Pending& p : pending) groups[group_of(result.cells[p.cell].key)].push_back(&p);
  std::map<GroupName, Spread> spreads;
  const auto estimate_spread = [&](const std::vector<const Pending*>& members,
                                   const std::string& of) -> Spread {
    std::vector<double> shifts, residuals, within;
    for (const Pending* p : members) {
      within.push_back(p->estimate.within);
      shifts.push_back(p->estimate.shift);
      const std::size_t n = p->estimate.shifts.size();
      if (n < 2) continue;
      const double centre = median(p->estimate.shifts);
      for (const double shift : p->estimate.shifts)
        residuals.push_back((shift - centre) *
                            std::sqrt(static_cast<double>(n) / static_cast<double>(n - 1)));
    }
    if (residuals.size() >= least_group) return spread_from(residuals, within, "repeated runs of " + of);
    if (members.size() < least_group) return {};
    const double centre = median(shifts);
    for (double& shift : shifts) shift -= centre;
    return spread_from(shifts, within, "how far apart the cells of " + of + " moved");
  };
  std::vector<const Pending*> everything;
  for (const Pending& p : pending) everything.push_back(&p);
  const Spread* widest = nullptr;
  for (const auto& [name, members] : groups)
    if (Spread own = estimate_spread(members, "this group"); !own.source.empty()) {
      const Spread& kept = spreads[name] = own;
      if (widest == nullptr || kept.variance > widest->variance) widest = &kept;
    }
  for (const auto& [name, members] : groups) {
    Spread spread = spreads[name];
    if (options.run_spread >= 0) {
      spread = {2 * options.run_spread * options.run_spread, options.run_spread, 1e6, "given"};
    } else if (spread.source.empty() && widest != nullptr) {
      // Too few cells of its own: quiet groups do not speak for it, the least quiet one may.
      spread = *widest;
      spread.source = "the widest of the other groups";
    } else if (spread.source.empty()) {
      if (spread = estimate_spread(everything, "all groups"); spread.source.empty())
        spread = {2 * assumed_run_spread * assumed_run_spread, assumed_run_spread, 1e6,
                  "assumed: too few cells to tell"};
    }
    spreads[name] = spread;
    std::vector<double> shifts;
    for (const Pending* p : members) shifts.push_back(p->estimate.shift);
    result.groups.push_back({name.first, name.second, static_cast<std::int64_t>(members.size()),
                             std::expm1(median(shifts)), spread.per_run, spread.source});
  }

  // Then the verdicts, all at once: many cells are many chances to be wrong.
  std::vector<double> p_values;
  for (const Pending& p : pending) {
    const Estimate& e = p.estimate;
    ComparedCell& cell = result.cells[p.cell];
    const auto pairs = static_cast<double>(e.shifts.size());
    const Spread& spread = spreads[group_of(cell.key)];
    double between = spread.variance, degrees = spread.degrees;
    // A cell whose own runs lie further apart than its group's is taken at its word.
    if (const double own = std::pow(robust_scale(e.shifts), 2) - e.within;
        e.shifts.size() >= 3 && options.run_spread < 0 && own > between)
      between = own, degrees = weight_of_group + degrees_of_scale(e.shifts.size());
    if (pairs > 1) between *= shift_variance;
    const double error = std::sqrt((e.within + between) / pairs);
    // Welch and Satterthwaite: the sum of two variances, each as well known as it is.
    const double sum = e.within + between,
                 known = e.within * e.within / e.degrees + between * between / degrees;
    const double df = known > 0 ? sum * sum / known : e.degrees;
    const double t = e.shift == 0 ? 0 : e.shift / error;
    p_values.push_back(e.identical ? 1 : student_two_sided(t, df));
    const double half = e.identical ? 0 : student_quantile(options.error_rate, df) * error;
    cell.change = std::expm1(e.shift);
    cell.low = std::expm1(e.shift - half);
    cell.high = std::expm1(e.shift + half);
  }
  const std::vector<double> adjusted = adjust_for_many(p_values);
  const double limit = std::log1p(options.threshold);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    ComparedCell& cell = result.cells[pending[i].cell];
    const double shift = pending[i].estimate.shift;
    cell.p_value = adjusted[i];
    const bool mistrusted =
        !pending[i].estimate.identical && (cell.status_a == "MISTRUSTED" || cell.status_b == "MISTRUSTED");
    if (mistrusted)
      cell.time = Verdict::undecided, cell.note += (cell.note.empty() ? "" : "; ") +
                                                   std::string("link MISTRUSTED in ") +
                                                   (cell.status_a != "MISTRUSTED"   ? "B"
                                                    : cell.status_b != "MISTRUSTED" ? "A"
                                                                                    : "A and B");
    else if (adjusted[i] <= options.error_rate && std::abs(shift) >= limit)
      cell.time = shift > 0 ? Verdict::slower : Verdict::faster;
    else if (std::log1p(cell.low) >= -limit && std::log1p(cell.high) <= limit)
      cell.time = Verdict::same;
    if (cell.verdict == Verdict::same) cell.verdict = cell.time;
    cell.worse = cell.worse || cell.time == Verdict::slower;
  }
  return result;
}

}  // namespace thinwire::results
