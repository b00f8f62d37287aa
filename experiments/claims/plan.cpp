#include "experiments/claims/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <set>

#include "core/statistics.h"
#include "experiments/claims/judge.h"
#include "results/cell_command.h"

namespace thinwire::claims {
namespace {

/// Seconds since 1970 of "2026-11-22T10:11:12.123Z"; NaN for anything else.
double seconds_of(const std::string& time) {
  std::tm parts{};
  double second = 0;
  if (std::sscanf(time.c_str(), "%d-%d-%dT%d:%d:%lfZ", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &second) != 6) return no_number;
  parts.tm_year -= 1900, parts.tm_mon -= 1;
  return static_cast<double>(timegm(&parts)) + second;
}

std::string id_of(const CellRequest& request) { return results::cell_id(request.program, request.ranks, request.link, request.parameters); }

std::string duration(double seconds) {
  char text[32];
  if (seconds < 90)
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  else if (seconds < 5400)
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  else
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  return text;
}

}  // namespace

CellTimes::CellTimes(const std::map<std::string, results::CellRecord>& measured) {
  std::map<std::string, int> cells_of;
  for (const auto& [id, record] : measured) ++cells_of[record.provenance.launch];
  for (const auto& [id, record] : measured) {
    // Where the cell's own time was not kept, its share of its launch's.
    double seconds = (seconds_of(record.provenance.finished) - seconds_of(record.provenance.started)) / cells_of[record.provenance.launch];
    for (const results::AttemptRow& attempt : record.training.attempts)
      if (attempt.used != 0 && attempt.wall_s > 0) seconds = attempt.wall_s;
    if (!std::isfinite(seconds) || seconds < 0) continue;
    by_id_[id] = seconds;
    const double steps = record.training.curve.empty() ? 0 : static_cast<double>(record.training.curve.back().step + 1);
    by_program_[{record.program, record.ranks}].push_back({record.link, seconds, steps});
  }
}

double CellTimes::seconds(const CellRequest& request) const {
  if (const auto same = by_id_.find(id_of(request)); same != by_id_.end()) return same->second;
  if (std::isfinite(request.about_seconds)) return request.about_seconds;
  const auto found = by_program_.find({request.program, request.ranks});
  if (found == by_program_.end()) return no_number;
  std::vector<Measured> like = found->second;
  const auto keep = [&like](const auto& is_like) {
    if (std::ranges::any_of(like, is_like)) std::erase_if(like, [&](const Measured& m) { return !is_like(m); });
  };
  keep([&](const Measured& m) { return m.link == request.link; });
  double scale = 1;
  if (request.parameters.has("steps") && std::ranges::any_of(like, [](const Measured& m) { return m.steps > 0; })) {
    keep([](const Measured& m) { return m.steps > 0; });
    scale = request.parameters.number("steps");
    for (Measured& m : like) m.seconds /= m.steps;
  }
  std::vector<double> seconds;
  for (const Measured& m : like) seconds.push_back(m.seconds);
  return scale * median(seconds);
}

void CellTimes::add(const CellTimes& other) {
  by_id_.insert(other.by_id_.begin(), other.by_id_.end());
  for (const auto& [key, cells] : other.by_program_) by_program_[key].insert(by_program_[key].end(), cells.begin(), cells.end());
}

std::vector<ClaimPlan> plan_claims(const std::vector<const Claim*>& claims, JudgeContext& context, const CellTimes& times) {
  std::vector<ClaimPlan> plans;
  std::set<std::string> planned, following, of_other_builds;
  for (const Claim* claim : claims) {
    if (!claim->measure || claim->from > context.profile) continue;
    ClaimPlan plan{claim->id, {}};
    PlannedWork work;
    context.cells.only_plan(work);
    try {
      (void)measured(*claim, context);
    } catch (const PlanEnds&) {
      plan.complete = context.seeds() == seeds_of(*claim, context.profile).back();
    } catch (const Error&) {  // judged INVALID or SKIPPED when it is run: nothing to measure
    }
    plan.work.elsewhere = work.elsewhere;
    for (const std::string& id : work.other_build)
      if (of_other_builds.insert(id).second) plan.work.other_build.insert(id);
    const auto add_time = [&](const CellRequest& request) {
      const double seconds = times.seconds(request);
      if (std::isfinite(seconds))
        plan.seconds += seconds;
      else
        ++plan.without_time;
    };
    for (const CellRequest& request : work.cells) {
      if (!planned.insert(id_of(request)).second) continue;
      plan.work.cells.push_back(request);
      add_time(request);
    }
    for (const CellRequest& request : work.later) {
      if (!following.insert(id_of(request)).second) continue;
      ++plan.later;
      add_time(request);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string to_text(const std::vector<ClaimPlan>& plans) {
  std::string text;
  char line[256];
  double seconds = 0;
  std::size_t cells = 0, later = 0, without = 0, nothing = 0, of_other_builds = 0;
  for (const ClaimPlan& p : plans) {
    of_other_builds += p.work.other_build.size();
    if (p.work.cells.empty() && p.later == 0 && p.work.elsewhere.empty()) {
      ++nothing;
      continue;
    }
    cells += p.work.cells.size(), later += static_cast<std::size_t>(p.later), without += static_cast<std::size_t>(p.without_time), seconds += p.seconds;
    std::snprintf(line, sizeof line, "%-22s %4zu cells  %8s%s%s%s\n", p.id.c_str(), p.work.cells.size(), p.work.cells.empty() && p.later == 0 ? "" : duration(p.seconds).c_str(),
                  p.later > 0 ? (", with " + std::to_string(p.later) + " cells that follow in what these choose").c_str() : "",
                  p.without_time > 0 ? " and cells nobody timed yet" : "", p.complete ? "" : "; more seeds where the rule stays INCONCLUSIVE");
    text += line;
    for (const std::string& what : p.work.elsewhere) text += "                       and " + what + "\n";
  }
  std::snprintf(line, sizeof line, "%zu cells to measure%s, %s as such cells took before or their claims say%s; %zu claims need no new cell\n", cells,
                later > 0 ? (" and " + std::to_string(later) + " that follow").c_str() : "", duration(seconds).c_str(),
                without > 0 ? (", and " + std::to_string(without) + " cells nobody timed yet").c_str() : "", nothing);
  text += line;
  if (of_other_builds > 0)
    text += std::to_string(of_other_builds) + (of_other_builds == 1 ? " cell or kept file is" : " cells or kept files are") + " of another build: claims run asks what to do (--if-code-changed)\n";
  return text;
}

std::string commands_of(const std::vector<ClaimPlan>& plans) {
  std::string text;
  for (const ClaimPlan& p : plans) {
    if (!p.work.cells.empty()) text += "# " + p.id + "\n";
    for (const CellRequest& cell : p.work.cells) text += results::command_of_cell(cell.program, cell.ranks, cell.link, cell.parameters) + "\n";
  }
  return text;
}

}  // namespace thinwire::claims
