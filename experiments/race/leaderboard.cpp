#include "experiments/race/leaderboard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "collectives/link/emulated_network.h"
#include "collectives/link/link_calibration.h"
#include "experiments/claims/interval.h"

namespace thinwire::race {
namespace {

// Below this an indication without an interval is not told from noise.
constexpr double indicated = 1.1;

std::vector<double> logs(const std::vector<double>& values) {
  std::vector<double> of;
  for (const double v : values) of.push_back(std::log(v));
  return of;
}

/// Sum of independent means of logarithms; half-widths of their intervals add as variances do.
claims::Interval sum(std::initializer_list<claims::Interval> terms) {
  double mean = 0, square = 0;
  for (const claims::Interval& term : terms) {
    mean += term.mean;
    const double half = (term.high - term.low) / 2;  // NaN for a single value, and then of the whole
    square += half * half;
  }
  const double half = std::sqrt(square);
  return {mean, mean - half, mean + half};
}

/// Of what was measured of the baseline over what was of another; in pairs, or as two independent means.
claims::Interval ratio(const std::vector<double>& base_logs, const std::vector<double>& logs, bool pairs) {
  if (pairs) return claims::paired_interval(logs, base_logs);
  const claims::Interval own = claims::interval_of(logs);
  return sum({claims::interval_of(base_logs), {-own.mean, -own.high, -own.low}});
}

Spread product(std::initializer_list<claims::Interval> factors) {
  const claims::Interval all = sum(factors);
  return {std::exp(all.mean), std::exp(all.low), std::exp(all.high)};
}

const std::vector<int>& seeds_of(const Course& course, const Performance& p) {
  return course.seeds_of(*std::ranges::find(course.entrants, p.entrant, &Entrant::name));
}

/// Steps with which each seed counts: its own, or the whole run's where it did not arrive.
std::vector<double> counted_steps(const Course& course, const Performance& p) {
  std::vector<double> steps = p.steps_to_target;
  if (steps.empty()) steps.assign(seeds_of(course, p).size(), static_cast<double>(course.longest_run()));
  for (double& s : steps)
    if (std::isnan(s)) s = p.steps;
  return steps;
}

std::string number(double x, const char* format = "%.3g") {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

/// Gbit/s of a link that goes at one rate both ways and bills nothing but its cards; else NaN.
double rate_of(const std::string& link) {
  if (!EmulatedLink::is_emulated(link)) return link.starts_with("netns:") ? nominal_link_gbps(link) : none;
  const EmulatedLink emulated = EmulatedLink::parse(link);
  return emulated.meter == LinkMeter::cards && emulated.up_gbps() == emulated.down_gbps() ? emulated.gbps : none;
}

bool leads(const Standing& s) {
  if (!s.all_arrived()) return false;
  return std::isnan(s.sooner.low) ? s.sooner.value > indicated : s.sooner.low > 1;
}
bool trails(const Standing& s) {
  if (!s.baseline_all_arrived()) return false;  // whatever is behind a lower bound may still be before the time itself
  if (!s.all_arrived()) return true;
  return std::isnan(s.sooner.high) ? s.sooner.value < 1 / indicated : s.sooner.high < 1;
}

std::string verdict_of(const Standing& s, const std::string& baseline) {
  if (s.entrant == baseline) return "baseline";
  if (!s.all_arrived()) return "not arrived";
  return leads(s) ? "sooner" : trails(s) ? "later" : "undecided";
}

std::string of_seeds(int some, int all) { return std::to_string(some) + " of " + std::to_string(all) + (all == 1 ? " seed" : " seeds"); }

/// "did not reach it with 1 of 3 seeds"; empty where the baseline arrived with all.
std::string missed_by_baseline(const Standing& s) {
  return s.baseline_all_arrived() ? "" : "did not reach it with " + of_seeds(s.baseline_seeds - s.baseline_arrived, s.baseline_seeds);
}

}  // namespace

std::vector<Standing> Leaderboard::on(const std::string& link) const {
  std::vector<Standing> of;
  std::ranges::copy_if(standings, std::back_inserter(of), [&](const Standing& s) { return s.link == link; });
  return of;
}

Leaderboard rank(const Course& course, double target, const std::vector<Performance>& performances, const Times& times) {
  Leaderboard board{course.name, course.baseline().name, target, course.horizon, course.links, {}, course.description, course.windows, course.pair_windows};
  const Performance& base = performances.front();
  const std::vector<double> base_steps = logs(counted_steps(course, base));
  for (const std::string& link : course.links) {
    std::vector<Standing> here;
    const auto base_time = times.find({base.entrant, link});
    for (const Performance& p : performances) {
      Standing s;
      s.entrant = p.entrant, s.link = link, s.rate = p.rate, s.steps = p.steps, s.arrived = p.arrived(), s.seeds = static_cast<int>(seeds_of(course, p).size());
      s.baseline_arrived = base.arrived(), s.baseline_seeds = static_cast<int>(course.seeds.size());
      const auto add = [&](const std::string& remark) { s.remark += (s.remark.empty() ? "" : "; ") + remark; };
      if (p.steps == 0)
        add("not within " + std::to_string(course.longest_run() / course.horizon) + " horizons");
      else if (!s.all_arrived())
        add(of_seeds(s.arrived, s.seeds) + " arrived");
      if (const std::string missed = missed_by_baseline(s); p.entrant != base.entrant && !missed.empty()) add(base.entrant + " " + missed);
      const std::vector<double> steps = logs(counted_steps(course, p));
      s.steps_to_target = std::exp(claims::interval_of(steps).mean);
      if (!p.final_loss.empty()) s.final_loss = claims::interval_of(p.final_loss).mean;
      if (const auto time = times.find({p.entrant, link}); time != times.end() && base_time != times.end() && !time->second.step_ms.empty() && !base_time->second.step_ms.empty()) {
        const std::vector<double> windows = logs(time->second.step_ms), base_windows = logs(base_time->second.step_ms);
        const claims::Interval step = claims::interval_of(windows);
        // Where one is missing the others no longer stand beside those of their round.
        const auto whole = [&](const std::vector<double>& measured) { return std::ssize(measured) == course.windows; };
        const bool window_pairs = course.pair_windows && whole(windows) && whole(base_windows);
        if (course.pair_windows && !window_pairs) add("windows without their pairs");
        s.step_ms = product({step});
        s.seconds = product({claims::interval_of(steps), step});
        for (double* t : {&s.seconds.value, &s.seconds.low, &s.seconds.high}) *t /= 1e3;
        if (p.entrant == base.entrant)
          s.sooner = {1, 1, 1};
        else if (!s.all_arrived() && !s.baseline_all_arrived())
          s.sooner = {};  // a bound over a bound says nothing
        else
          s.sooner = product({ratio(base_steps, steps, seeds_of(course, p) == course.seeds), ratio(base_windows, windows, window_pairs)});
        s.link_bytes = time->second.link_bytes;
        if (!time->second.distrust.empty()) add(time->second.distrust);
      } else {
        add("no step time");
      }
      s.verdict = verdict_of(s, base.entrant);
      here.push_back(std::move(s));
    }
    std::ranges::stable_sort(here, [](const Standing& a, const Standing& b) {
      if (a.all_arrived() != b.all_arrived()) return a.all_arrived();
      return a.seconds.value < b.seconds.value || (std::isnan(b.seconds.value) && !std::isnan(a.seconds.value));
    });
    board.standings.insert(board.standings.end(), here.begin(), here.end());
  }
  return board;
}

std::vector<std::string> answers(const Leaderboard& board) {
  std::vector<std::string> sentences;
  for (const std::string& link : board.links) {
    const std::vector<Standing> here = board.on(link);
    const auto best = std::ranges::find_if(here, [&](const Standing& s) { return s.entrant != board.baseline && leads(s); });
    const std::string missed = missed_by_baseline(here.front());
    if (best == here.end()) {
      sentences.push_back("On " + link + " nothing " + (missed.empty() ? "reaches " : "is shown to reach ") + number(board.target, "%.4g") + " nats sooner than " + board.baseline +
                          (missed.empty() ? "" : ", which " + missed) + ".");
      continue;
    }
    std::string text = "On " + link + " " + best->entrant + " reaches " + number(board.target, "%.4g") + " nats " + (missed.empty() ? "" : "at least ") + number(best->sooner.value);
    if (!std::isnan(best->sooner.low)) text += " [" + number(best->sooner.low) + ", " + number(best->sooner.high) + "]";
    text += " times sooner than " + board.baseline;
    const auto next = std::find_if(best + 1, here.end(), [](const Standing& s) { return s.all_arrived(); });
    if (next != here.end() && next->entrant != board.baseline) text += ", " + number(next->seconds.value / best->seconds.value) + " times sooner than the next, " + next->entrant;
    if (std::isnan(best->sooner.low)) text += " (an indication: no interval)";
    if (!best->remark.empty()) text += " (" + best->remark + ")";
    for (auto before = here.begin(); before != best; ++before) text += "; " + before->entrant + " has a shorter time but is undecided";
    sentences.push_back(text + ".");
  }
  if (board.links.size() > 1 && std::ranges::none_of(board.standings, [&](const Standing& s) { return s.entrant != board.baseline && leads(s); }))
    sentences.push_back("No entrant " + std::string(board.standings.front().baseline_all_arrived() ? "beats " : "is shown to beat ") + board.baseline + " on any of these links.");
  return sentences;
}

std::vector<Flip> flips(const Leaderboard& board) {
  std::vector<Flip> found;
  std::vector<std::string> names;
  for (const Standing& s : board.on(board.links.front()))
    if (s.entrant != board.baseline) names.push_back(s.entrant);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const Standing* before = nullptr;  // on the last link that tells
    for (const std::string& link : board.links)
      for (const Standing& s : board.standings) {
        if (s.entrant != name || s.link != link || (!leads(s) && !trails(s))) continue;
        if (before != nullptr && leads(*before) != leads(s)) found.push_back(leads(s) ? Flip{name, before->link, link} : Flip{name, link, before->link});
        before = &s;
      }
  }
  return found;
}

std::vector<Crossing> crossings(const Leaderboard& board) {
  std::vector<std::pair<double, std::string>> rated;
  for (const std::string& link : board.links)
    if (const double gbps = rate_of(link); !std::isnan(gbps)) rated.emplace_back(gbps, link);
  std::ranges::sort(rated, std::greater<>());
  std::vector<Crossing> found;
  for (std::size_t i = 0; i + 1 < rated.size(); ++i) {
    const auto& [fast, faster_link] = rated[i];
    const auto& [slow, slower_link] = rated[i + 1];
    if (fast == slow) continue;
    const std::vector<Standing> first = board.on(faster_link), second = board.on(slower_link);
    for (const Standing& a : first)
      for (const Standing& b : first) {
        const auto a_slow = std::ranges::find(second, a.entrant, &Standing::entrant), b_slow = std::ranges::find(second, b.entrant, &Standing::entrant);
        if (!a.all_arrived() || !b.all_arrived() || !(a.seconds.value < b.seconds.value) || !(a_slow->seconds.value > b_slow->seconds.value)) continue;
        const double ahead = b.seconds.value - a.seconds.value, behind = a_slow->seconds.value - b_slow->seconds.value, part = ahead / (ahead + behind);
        found.push_back({a.entrant, b.entrant, faster_link, slower_link, 1 / (1 / fast + part * (1 / slow - 1 / fast))});
      }
  }
  return found;
}

std::vector<Crossing> changes_of_lead(const Leaderboard& board) {
  std::vector<Crossing> leads = crossings(board);
  std::erase_if(leads, [&](const Crossing& c) { return board.on(c.faster_link).front().entrant != c.above || board.on(c.slower_link).front().entrant != c.below; });
  return leads;
}

}  // namespace thinwire::race
