#include "experiments/run/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/clock.h"

namespace thinwire::sweep {

namespace {
std::string clock_text(double seconds) {
  if (std::isnan(seconds)) return "-:--";
  const auto s = static_cast<long>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}
}  // namespace

double Progress::monotonic_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

Progress::Progress(std::size_t already_done, std::span<const PlannedCell> todo, std::function<double()> clock)
    : before_(already_done),
      total_(already_done + todo.size()),
      clock_(std::move(clock)),
      start_(clock_()),
      printed_(start_),
      cell_start_(start_),
      terminal_(isatty(STDERR_FILENO) != 0) {
  for (const PlannedCell& cell : todo) ++paces_[class_of(cell)].todo;
}

Progress::~Progress() {
  if (done_ > 0 || terminal_) print(true);
}

void Progress::launch_started(const Launch& launch) {
  current_ = fmt::format("{} {} x{}", launch.program, launch.link, launch.ranks);
  running_ = Class{launch.program, launch.link, launch.ranks};
  cell_start_ = clock_();
  tick();
}

void Progress::cell_started(const PlannedCell& cell) {
  current_ = fmt::format("{} {} x{}", cell.program, cell.link, cell.ranks);
  running_ = class_of(cell);
  for (const char* name : {"method", "codec"})
    if (cell.parameters.has(name)) {
      current_ += " " + cell.parameters.text(name);
      break;
    }
  tick();
}

void Progress::cell_ended(const PlannedCell& cell, bool good) {
  Pace& pace = paces_[class_of(cell)];
  const double now = clock_();
  ++pace.done;
  pace.seconds += now - cell_start_;  // since the previous end: interleaved cells share their time
  cell_start_ = now;
  if (pace.done >= pace.todo) running_.reset();
  ++done_;
  if (!good) ++bad_;
  tick();
}

void Progress::cell_again(const PlannedCell& cell) {
  ++paces_[class_of(cell)].todo;  // what the failed attempt took counts for the pace
  ++total_;
  ++again_;
}

double Progress::mean_seconds(const Class& of) const {
  // From the cells that are most alike to all.
  const auto same_program = [&](const Class& c) { return c.program == of.program; };
  const auto same_link = [&](const Class& c) { return c.link == of.link; };
  const std::function<bool(const Class&)> alike[] = {[&](const Class& c) { return c == of; },
                                                     [&](const Class& c) { return same_program(c) && same_link(c); }, same_program, same_link,
                                                     [](const Class&) { return true; }};
  for (const auto& is_alike : alike) {
    Pace sum;
    for (const auto& [key, pace] : paces_)
      if (is_alike(key)) {
        sum.done += pace.done;
        sum.seconds += pace.seconds;
      }
    if (sum.done > 0) return sum.seconds / sum.done;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double Progress::eta_seconds() const {
  double eta = 0;
  for (const auto& [key, pace] : paces_) {
    int left = pace.todo - pace.done;
    if (left <= 0) continue;
    double mean = mean_seconds(key);
    if (running_ == key) {
      const double taken = clock_() - cell_start_, rest = std::abs(mean - taken);
      eta += rest;
      --left;
      // A cell that outlasted the mean says that its class takes longer than was known.
      if (taken > mean) mean = (pace.seconds + taken + rest) / (pace.done + 1);
    }
    eta += left * mean;
  }
  return done_ == 0 ? std::numeric_limits<double>::quiet_NaN() : eta;
}

void Progress::tick() {
  if (clock_() - printed_ >= (terminal_ ? 0.1 : 5.0)) print(false);
}

void Progress::print(bool is_last) {
  printed_ = clock_();
  const std::string line = fmt::format("[{}/{}] {}{} elapsed {} ETA {}", before_ + done_ - again_, total_ - again_, current_,
                                       bad_ > 0 ? fmt::format(", {} not good,", bad_) : "",
                                       clock_text(clock_() - start_), clock_text(eta_seconds()));
  if (terminal_)
    fmt::print(stderr, "\r\x1b[K{}{}", line, is_last ? "\n" : "");
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

}  // namespace thinwire::sweep
