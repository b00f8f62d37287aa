#include "experiments/run/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <limits>

namespace thinwire::sweep {

namespace {
std::string clock_text(double seconds) {
  if (std::isnan(seconds)) return "-:--";
  const auto s = static_cast<long>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}
}  // namespace

Progress::Progress(std::size_t already_done, std::span<const PlannedCell> todo)
    : before_(already_done), total_(already_done + todo.size()), terminal_(isatty(STDERR_FILENO) != 0) {
  for (const PlannedCell& cell : todo) ++pace_of(cell).todo;
}

Progress::~Progress() {
  if (done_ > 0 || terminal_) print(true);
}

void Progress::launch_started(const Launch& launch) {
  current_ = fmt::format("{} {} x{}", launch.program, launch.link, launch.ranks);
  since_cell_.restart();
  tick();
}

void Progress::cell_started(const PlannedCell& cell) {
  current_ = fmt::format("{} {} x{}", cell.program, cell.link, cell.ranks);
  for (const char* name : {"method", "codec"})
    if (cell.parameters.has(name)) {
      current_ += " " + cell.parameters.text(name);
      break;
    }
  tick();
}

void Progress::cell_ended(const PlannedCell& cell, bool good) {
  Pace& pace = pace_of(cell);
  ++pace.done;
  pace.seconds += since_cell_.seconds();  // since the previous end: interleaved cells share their time
  since_cell_.restart();
  ++done_;
  if (!good) ++bad_;
  tick();
}

void Progress::cell_again(const PlannedCell& cell) {
  ++pace_of(cell).todo;  // what the failed attempt took counts for the pace
  ++total_;
  ++again_;
}

double Progress::eta_seconds() const {
  double all_seconds = 0, eta = 0;
  int all_done = 0;
  for (const auto& [key, pace] : paces_) {
    all_seconds += pace.seconds;
    all_done += pace.done;
  }
  if (all_done == 0) return std::numeric_limits<double>::quiet_NaN();
  for (const auto& [key, pace] : paces_)
    eta += (pace.todo - pace.done) * (pace.done > 0 ? pace.seconds / pace.done : all_seconds / all_done);
  return eta;
}

void Progress::tick() {
  if (since_print_.seconds() >= (terminal_ ? 0.1 : 5.0)) print(false);
}

void Progress::print(bool is_last) {
  since_print_.restart();
  const std::string line = fmt::format("[{}/{}] {}{} elapsed {} ETA {}", before_ + done_ - again_, total_ - again_, current_,
                                       bad_ > 0 ? fmt::format(", {} not good,", bad_) : "",
                                       clock_text(since_start_.seconds()), clock_text(eta_seconds()));
  if (terminal_)
    fmt::print(stderr, "\r\x1b[K{}{}", line, is_last ? "\n" : "");
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

}  // namespace thinwire::sweep
