#include "experiments/race/race_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/claims/interval.h"

namespace thinwire::race {
namespace {

nlohmann::json json_number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

nlohmann::json json_of(const Performance& p) {
  nlohmann::json tried = nlohmann::json::array(), arrivals = nlohmann::json::array(), losses = nlohmann::json::array();
  for (const Tried& t : p.tried) tried.push_back({{"learning_rate", t.rate}, {"steps", t.steps}, {"loss", json_number(t.loss)}});
  for (const double steps : p.steps_to_target) arrivals.push_back(json_number(steps));
  for (const double loss : p.final_loss) losses.push_back(json_number(loss));
  nlohmann::json curve = nlohmann::json::array();
  for (const Validation& v : p.curve) curve.push_back({v.steps, json_number(v.loss)});
  return {{"entrant", p.entrant}, {"learning_rate", json_number(p.rate)}, {"steps", p.steps}, {"steps_to_target", arrivals}, {"final_loss", losses}, {"curve", curve}, {"tuning", tried}};
}

std::string spread(const Spread& s, const char* format) {
  char text[96];
  std::snprintf(text, sizeof text, format, s.value);
  std::string all = std::isnan(s.value) ? "-" : text;
  if (!std::isnan(s.low) && s.low != s.high) {
    std::snprintf(text, sizeof text, format, s.low);
    all += std::string(" [") + text + ", ";
    std::snprintf(text, sizeof text, format, s.high);
    all += std::string(text) + "]";
  }
  return all;
}

std::string rate_text(double gbps) {
  char text[32];
  std::snprintf(text, sizeof text, gbps >= 1 ? "%.2g Gbit/s" : "%.3g Mbit/s", gbps >= 1 ? gbps : gbps * 1e3);
  return text;
}

}  // namespace

std::string to_json(const Registered& r) {
  return nlohmann::json{{"schema", 1}, {"course", r.course}, {"target", r.target}, {"date", r.date}, {"baseline", r.baseline.entrant}, {"learning_rate", r.baseline.rate}, {"steps", r.baseline.steps}}.dump(1) + "\n";
}

Registered registered_from(const std::string& json, const std::string& where) {
  try {
    const nlohmann::json j = nlohmann::json::parse(json);
    Registered r{j.at("course"), j.at("target"), {}, j.at("date")};
    r.baseline.entrant = j.at("baseline"), r.baseline.rate = j.at("learning_rate"), r.baseline.steps = j.at("steps");
    return r;
  } catch (const nlohmann::json::exception& e) {
    throw CorruptData(where + ": " + e.what() + "; it is what the race registered: restore it, or race in another folder");
  }
}

std::span<const results::ColumnOf<RaceRow>> race_columns() {
  using R = RaceRow;
  static const results::ColumnOf<R> columns[] = {
      {"course", &R::course, "name of the course"},
      {"description", &R::description, "model, text and layout, as the course says them"},
      {"baseline", &R::baseline, "its first entrant"},
      {"entrant", &R::entrant, "name of the training configuration"},
      {"link", &R::link, "where its steps were timed"},
      {"place", &R::place, "on that link, from 1"},
      {"horizon", &R::horizon, "steps of the baseline's runs"},
      {"steps", &R::steps, "of this entrant's race runs; 0: it did not reach the target within the longest run"},
      {"seeds", &R::seeds, "race runs"},
      {"arrived", &R::arrived, "of them at or below the target"},
      {"target", &R::target, "validation loss, nats per token"},
      {"learning_rate", &R::learning_rate, "peak, chosen on the tuning seed"},
      {"steps_to_target", &R::steps_to_target, "geometric mean over seeds; one that did not arrive counts with its whole run"},
      {"final_loss", &R::final_loss, "mean over seeds, nats per token"},
      {"step_ms", &R::step_ms, "geometric mean over windows"},
      {"step_ms_low", &R::step_ms_low, "95 % interval"},
      {"step_ms_high", &R::step_ms_high, "95 % interval"},
      {"seconds", &R::seconds, "steps_to_target x step_ms / 1000; a lower bound where not all seeds arrived"},
      {"seconds_low", &R::seconds_low, "95 % interval"},
      {"seconds_high", &R::seconds_high, "95 % interval"},
      {"sooner", &R::sooner, "seconds of the baseline over seconds, steps paired over seeds; a lower bound where not all seeds of the baseline arrived, an upper one where not all of its own did, none where neither's did"},
      {"sooner_low", &R::sooner_low, "95 % interval"},
      {"sooner_high", &R::sooner_high, "95 % interval"},
      {"link_bytes", &R::link_bytes, "of a step, sum over ranks: sent"},
      {"verdict", &R::verdict, "baseline, sooner, later, undecided, not arrived"},
      {"remark", &R::remark, "seeds that did not arrive, times that say little"},
  };
  return columns;
}

std::vector<RaceRow> rows_of(const Leaderboard& board) {
  std::vector<RaceRow> rows;
  for (const std::string& link : board.links) {
    std::int64_t place = 0;
    for (const Standing& s : board.on(link)) {
      RaceRow r;
      r.course = board.course, r.description = board.description, r.baseline = board.baseline, r.entrant = s.entrant, r.link = link, r.place = ++place;
      r.horizon = board.horizon, r.steps = s.steps, r.seeds = s.seeds, r.arrived = s.arrived;
      r.target = board.target, r.learning_rate = s.rate, r.steps_to_target = s.steps_to_target, r.final_loss = s.final_loss;
      r.step_ms = s.step_ms.value, r.step_ms_low = s.step_ms.low, r.step_ms_high = s.step_ms.high;
      r.seconds = s.seconds.value, r.seconds_low = s.seconds.low, r.seconds_high = s.seconds.high;
      r.sooner = s.sooner.value, r.sooner_low = s.sooner.low, r.sooner_high = s.sooner.high, r.link_bytes = s.link_bytes, r.verdict = s.verdict, r.remark = s.remark;
      rows.push_back(std::move(r));
    }
  }
  return rows;
}

std::span<const results::ColumnOf<CurveRow>> curve_columns() {
  using R = CurveRow;
  static const results::ColumnOf<R> columns[] = {
      {"course", &R::course, "name of the course"},
      {"entrant", &R::entrant, "name of the training configuration"},
      {"steps", &R::steps, "before the validation"},
      {"loss", &R::loss, "mean over the seeds that did not diverge, nats per token"},
  };
  return columns;
}

std::vector<CurveRow> curves_of(const Leaderboard& board, const std::vector<Performance>& performances) {
  std::vector<CurveRow> rows;
  for (const Performance& p : performances)
    for (const Validation& v : p.curve) rows.push_back({board.course, p.entrant, v.steps, v.loss});
  return rows;
}

std::string to_text(const Performance& p) {
  char text[160];
  std::snprintf(text, sizeof text, "%.3g", p.rate);
  const std::string rate = std::string("at a learning rate of ") + text;
  if (p.steps == 0) return "its tuning seed does not reach the target within the longest run, " + rate;
  std::string steps;
  for (const double at : p.steps_to_target) steps += (steps.empty() ? "" : ", ") + (std::isnan(at) ? "never" : std::to_string(std::lround(at)));
  std::snprintf(text, sizeof text, "; %d of %zu seeds, %.4f nats in the end", p.arrived(), p.steps_to_target.size(), claims::interval_of(p.final_loss).mean);
  return "reaches the target after " + steps + " of " + std::to_string(p.steps) + " steps " + rate + text;
}

std::string to_text(const Leaderboard& board) {
  char line[512];
  std::string text;
  for (const std::string& answer : answers(board)) text += answer + "\n";
  for (const Flip& flip : flips(board)) text += flip.entrant + " is behind " + board.baseline + " on " + flip.loses_on + " and ahead on " + flip.wins_on + ".\n";
  for (const Crossing& c : crossings(board))
    if (c.above == board.baseline || c.below == board.baseline)
      text += c.below + " overtakes " + c.above + " below " + rate_text(c.gbps) + " (interpolated between " + c.faster_link + " and " + c.slower_link + ").\n";
  for (const Crossing& c : changes_of_lead(board))
    if (c.above != board.baseline && c.below != board.baseline) text += "The lead goes from " + c.above + " to " + c.below + " below " + rate_text(c.gbps) + " (interpolated).\n";
  std::snprintf(line, sizeof line, "course %s: validation loss %.4f nats per token, horizon %d steps\n", board.course.c_str(), board.target, board.horizon);
  text += line;
  for (const std::string& link : board.links) {
    std::snprintf(line, sizeof line, "\n%s\n%5s  %-28s %9s %22s %28s %24s %12s %8s\n", link.c_str(), "place", "entrant", "steps", "ms a step", "seconds to the target", "times sooner", "MB a step", "loss");
    text += line;
    int place = 0;
    for (const Standing& s : board.on(link)) {
      const std::string steps = (s.all_arrived() ? "" : ">") + std::to_string(std::lround(s.steps_to_target)), seconds = (s.all_arrived() ? "" : ">") + spread(s.seconds, "%.4g");
      const bool bounded = s.entrant != board.baseline && !std::isnan(s.sooner.value);  // at most one of both is
      const std::string sooner = (!bounded ? "" : !s.baseline_all_arrived() ? ">" : !s.all_arrived() ? "<" : "") + spread(s.sooner, "%.3g");
      std::snprintf(line, sizeof line, "%5d  %-28s %9s %22s %28s %24s %12.3f %8.4f  %s\n", ++place, s.entrant.c_str(), steps.c_str(), spread(s.step_ms, "%.4g").c_str(), seconds.c_str(),
                    sooner.c_str(), s.link_bytes / 1e6, s.final_loss, s.remark.c_str());
      text += line;
    }
  }
  return text;
}

std::string to_json(const Leaderboard& board, const Registered& registered, const std::vector<Performance>& performances) {
  nlohmann::json standings = nlohmann::json::array(), runs = nlohmann::json::array(), turns = nlohmann::json::array();
  for (const RaceRow& row : rows_of(board)) {
    nlohmann::json j;
    for (const auto& column : race_columns())
      std::visit([&]<typename T>(T RaceRow::*member) {
        if constexpr (std::is_same_v<T, double>)
          j[column.name] = json_number(row.*member);
        else
          j[column.name] = row.*member;
      }, column.member);
    standings.push_back(std::move(j));
  }
  for (const Performance& p : performances) runs.push_back(json_of(p));
  for (const Flip& f : flips(board)) turns.push_back({{"entrant", f.entrant}, {"behind_on", f.loses_on}, {"ahead_on", f.wins_on}});
  nlohmann::json crossed = nlohmann::json::array();
  for (const Crossing& c : crossings(board))
    crossed.push_back({{"sooner_above", c.above}, {"sooner_below", c.below}, {"faster_link", c.faster_link}, {"slower_link", c.slower_link}, {"interpolated_gbps", json_number(c.gbps)}});
  return nlohmann::json{{"schema", 1},
                        {"registered", nlohmann::json::parse(to_json(registered))},
                        {"windows", board.windows},
                        {"pair_windows", board.pair_windows},
                        {"answers", answers(board)},
                        {"standings", standings},
                        {"entrants", runs},
                        {"flips", turns},
                        {"crossings", crossed}}
             .dump(1) +
         "\n";
}

}  // namespace thinwire::race
