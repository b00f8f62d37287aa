#include "experiments/race/leaderboard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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

/// Sum of independent means of logarithms, each +1 or -1 times; half-widths of their intervals add as variances do.
Spread product(std::initializer_list<std::pair<claims::Interval, int>> factors) {
  double sum = 0, square = 0;
  for (const auto& [interval, sign] : factors) {
    sum += sign * interval.mean;
    const double half = (interval.high - interval.low) / 2;  // NaN for a single value, and then of the whole
    square += half * half;
  }
  const double half = std::sqrt(square);
  return {std::exp(sum), std::exp(sum - half), std::exp(sum + half)};
}

const std::vector<int>& seeds_of(const Course& course, const Performance& p) {
  return course.seeds_of(*std::ranges::find(course.entrants, p.entrant, &Entrant::name));
}

/// Steps with which each seed counts: its own, or the whole run's where it did not arrive.
std::vector<double> counted_steps(const Course& course, const Performance& p) {
  std::vector<double> steps = p.steps_to_target;
  if (steps.empty()) steps.assign(seeds_of(course, p).size(), static_cast<double>(course.longest) * course.horizon);
  for (double& s : steps)
    if (std::isnan(s)) s = p.steps;
  return steps;
}

std::string number(double x, const char* format = "%.3g") {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

bool leads(const Standing& s) {
  if (!s.all_arrived()) return false;
  return std::isnan(s.sooner.low) ? s.sooner.value > indicated : s.sooner.low > 1;
}
bool trails(const Standing& s) {
  if (!s.all_arrived()) return true;
  return std::isnan(s.sooner.high) ? s.sooner.value < 1 / indicated : s.sooner.high < 1;
}

std::string verdict_of(const Standing& s, const std::string& baseline) {
  if (s.entrant == baseline) return "baseline";
  if (!s.all_arrived()) return "not arrived";
  return leads(s) ? "sooner" : trails(s) ? "later" : "undecided";
}

}  // namespace

std::vector<Standing> Leaderboard::on(const std::string& link) const {
  std::vector<Standing> of;
  std::ranges::copy_if(standings, std::back_inserter(of), [&](const Standing& s) { return s.link == link; });
  return of;
}

Leaderboard rank(const Course& course, double target, const std::vector<Performance>& performances, const Times& times) {
  Leaderboard board{course.name, course.baseline().name, target, course.horizon, course.links, {}, course.description};
  const Performance& base = performances.front();
  const std::vector<double> base_steps = logs(counted_steps(course, base));
  for (const std::string& link : course.links) {
    std::vector<Standing> here;
    const auto base_time = times.find({base.entrant, link});
    for (const Performance& p : performances) {
      Standing s;
      s.entrant = p.entrant, s.link = link, s.rate = p.rate, s.steps = p.steps, s.arrived = p.arrived(), s.seeds = static_cast<int>(seeds_of(course, p).size());
      const auto add = [&](const std::string& remark) { s.remark += (s.remark.empty() ? "" : "; ") + remark; };
      if (p.steps == 0)
        add("not within " + std::to_string(course.longest) + " horizons");
      else if (!s.all_arrived())
        add(std::to_string(s.arrived) + " of " + std::to_string(s.seeds) + (s.seeds == 1 ? " seed" : " seeds") + " arrived");
      const std::vector<double> steps = logs(counted_steps(course, p));
      s.steps_to_target = std::exp(claims::interval_of(steps).mean);
      if (!p.final_loss.empty()) s.final_loss = claims::interval_of(p.final_loss).mean;
      if (const auto time = times.find({p.entrant, link}); time != times.end() && base_time != times.end() && !time->second.step_ms.empty() && !base_time->second.step_ms.empty()) {
        const claims::Interval step = claims::interval_of(logs(time->second.step_ms)), base_step = claims::interval_of(logs(base_time->second.step_ms));
        s.step_ms = product({{step, 1}});
        s.seconds = product({{claims::interval_of(steps), 1}, {step, 1}});
        for (double* t : {&s.seconds.value, &s.seconds.low, &s.seconds.high}) *t /= 1e3;
        if (p.entrant == base.entrant)
          s.sooner = {1, 1, 1};
        else if (seeds_of(course, p) == course.seeds)
          s.sooner = product({{claims::paired_interval(steps, base_steps), 1}, {base_step, 1}, {step, -1}});
        else
          s.sooner = product({{claims::interval_of(base_steps), 1}, {claims::interval_of(steps), -1}, {base_step, 1}, {step, -1}});
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
    if (best == here.end()) {
      sentences.push_back("On " + link + " nothing reaches " + number(board.target, "%.4g") + " nats sooner than " + board.baseline + ".");
      continue;
    }
    std::string text = "On " + link + " " + best->entrant + " reaches " + number(board.target, "%.4g") + " nats " + number(best->sooner.value);
    if (!std::isnan(best->sooner.low)) text += " [" + number(best->sooner.low) + ", " + number(best->sooner.high) + "]";
    text += " times sooner than " + board.baseline;
    const auto next = std::ranges::find_if(here, [&](const Standing& s) { return s.entrant != best->entrant && s.all_arrived(); });
    if (next != here.end() && next->entrant != board.baseline) text += ", " + number(next->seconds.value / best->seconds.value) + " times sooner than the next, " + next->entrant;
    if (std::isnan(best->sooner.low)) text += " (an indication: no interval)";
    if (!best->remark.empty()) text += " (" + best->remark + ")";
    sentences.push_back(text + ".");
  }
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

}  // namespace thinwire::race
