// What came of a race: T = steps to the target x steady step time for every entrant and link, its interval, and who leads.
//
// Intervals are of logarithms, two-sided 95 % by Student's t. Steps vary over seeds, step times over windows; they are independent, so their variances add:
// var(log T) = s^2(log steps) / seeds + s^2(log step) / windows. Against the baseline steps are paired over seeds, and windows over rounds where the course says so. With one seed or one window there is
// no interval: the result is an indication.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/race/race.h"

namespace thinwire::race {

/// A positive number with its interval; NaN bounds: none.
struct Spread {
  double value = none, low = none, high = none;
};

/// An entrant on a link.
struct Standing {
  std::string entrant, link;
  double rate = none;
  int steps = 0, arrived = 0, seeds = 0;
  double steps_to_target = none;  ///< geometric mean of the seeds that arrived
  Spread step_ms;
  Spread seconds;                 ///< T; where some seeds did not arrive a lower bound, their steps counted as those of the whole run
  Spread sooner;                  ///< T of the baseline over T: 2 reaches the target in half the time. A lower bound where the baseline did not arrive with all seeds; none where neither did
  double link_bytes = none;       ///< of a step, all ranks
  double final_loss = none;       ///< mean over seeds
  int baseline_arrived = 0, baseline_seeds = 0;
  std::string verdict;            ///< baseline, sooner, later (by the interval; of one seed or window by a tenth), undecided, not arrived (some seeds did not)
  std::string remark;             ///< "2 of 3 seeds arrived", "dense did not reach it with 1 of 3 seeds", why its times say little
  bool all_arrived() const { return seeds > 0 && arrived == seeds; }
  bool baseline_all_arrived() const { return baseline_seeds > 0 && baseline_arrived == baseline_seeds; }
};

using Times = std::map<std::pair<std::string, std::string>, TimedStep>;  ///< by entrant and link

struct Leaderboard {
  std::string course, baseline;
  double target = none;
  int horizon = 0;
  std::vector<std::string> links;   ///< as the course names them
  std::vector<Standing> standings;  ///< link by link, the soonest first; those that did not arrive last
  std::string description;          ///< model, text and layout, as the course says them
  int windows = 0;                  ///< timed runs per entrant and link that were asked for
  bool pair_windows = false;        ///< compared in pairs over rounds, where none is missing
  std::vector<Standing> on(const std::string& link) const;
};

Leaderboard rank(const Course& course, double target, const std::vector<Performance>& performances, const Times& times);

/// One sentence per link: who reaches the target how many times sooner than the baseline, or that nobody does. An entrant counts as sooner where its interval lies above 1, or, of one
/// seed or window, its value by a tenth, as an indication. Where the baseline did not arrive with all seeds it is sooner by so much at least, and nobody is later. Entrants before the first
/// that is sooner, with a shorter time and a wider interval, are named as undecided.
std::vector<std::string> answers(const Leaderboard& board);
/// Links, in the order of the course, between which the first of an entrant and the baseline changes: {"int8", "emulated:1gbit", "emulated:100mbit"}.
struct Flip {
  std::string entrant, loses_on, wins_on;
};
std::vector<Flip> flips(const Leaderboard& board);

/// Two entrants that change places between neighbouring links: of those with one rate for both directions, by it. The rate at which they do is interpolated, not measured: each one's time of a step is taken
/// to be a + b / rate between the two measured ones (and the latency to change along), so T is a straight line in 1 / rate. Values alone, without their intervals.
struct Crossing {
  std::string above, below;  ///< who is sooner at higher rates, and at lower ones
  std::string faster_link, slower_link;
  double gbps = none;
};
std::vector<Crossing> crossings(const Leaderboard& board);
/// Of them the first to reach the target on its link, on both sides: who takes over from whom.
std::vector<Crossing> changes_of_lead(const Leaderboard& board);

}  // namespace thinwire::race
