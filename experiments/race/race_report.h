// A race as text, as JSON (OUT/race.json) and as the table /race of OUT/race.h5 (docs/race.md).
#pragma once

#include <span>

#include "experiments/race/leaderboard.h"
#include "results/hdf5/table.h"

namespace thinwire::race {

inline constexpr const char* registered_file = "registered.json";  ///< in OUT

/// What was fixed before any entrant but the baseline ran (OUT/registered.json).
struct Registered {
  std::string course;  ///< Course::registered_text()
  double target = none;
  Performance baseline;  ///< rate and steps
  std::string date;
};
std::string to_json(const Registered& registered);
/// CorruptData naming `where`.
Registered registered_from(const std::string& json, const std::string& where);

/// One row of /race: an entrant on a link.
struct RaceRow {
  std::string course, description, baseline, entrant, link;
  std::int64_t place = 0, horizon = 0, steps = 0, seeds = 0, arrived = 0;
  double target = none, learning_rate = none, steps_to_target = none, final_loss = none, step_ms = none, step_ms_low = none, step_ms_high = none, seconds = none, seconds_low = none,
         seconds_high = none, sooner = none, sooner_low = none, sooner_high = none, link_bytes = none;
  std::string verdict, remark;
};
std::span<const results::ColumnOf<RaceRow>> race_columns();
std::vector<RaceRow> rows_of(const Leaderboard& board);

/// One row of /race_curves: the validation loss of an entrant's race runs after so many steps.
struct CurveRow {
  std::string course, entrant;
  std::int64_t steps = 0;
  double loss = none;
};
std::span<const results::ColumnOf<CurveRow>> curve_columns();
std::vector<CurveRow> curves_of(const Leaderboard& board, const std::vector<Performance>& performances);

/// What training said of an entrant, for who waits for the rest: "reaches the target after 810, 840 of 900 steps at a learning rate of 0.004; 2 of 2 seeds, 1.6285 nats in the end".
std::string to_text(const Performance& performance);
/// The answers, then a table per link.
std::string to_text(const Leaderboard& board);
std::string to_json(const Leaderboard& board, const Registered& registered, const std::vector<Performance>& performances);

}  // namespace thinwire::race
