// What the rows of many codecs on one tensor say to somebody who must choose one: a table by ratio, and the quickest codec for each link.
#pragma once

#include <cstdio>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Largest vNMSE of a message that is called tolerable unless the user says otherwise: the square of the relative L2 error of 0.1 that the
/// figures call low (docs/figures.md). It says nothing about training.
inline constexpr double tolerable_vnmse = 0.01;

struct ChoiceRules {
  double max_vnmse = tolerable_vnmse;
  std::vector<double> links_gbps = {0.1, 1, 10, 25, 100, 400};  ///< Gbit/s per direction
};

/// The run options of choose_rules, for a program's list.
std::vector<RunOption> choice_options();
/// From --max-vnmse and --links where they are given. UsageError for what is no positive number.
ChoiceRules choice_rules(const std::map<std::string, std::string>& run_options);

/// Time of one message on a link of so many Gbit/s: encode + payload / bandwidth + decode, without latency and overlap, in microseconds per byte of the
/// dense tensor, so that rows of different parts of a tensor compare. NaN for a row without times. The identity needs no codec: dense / bandwidth.
double message_us_per_byte(const results::CellRow& row, double gbps);

/// The quickest of the tolerable codecs on one link.
struct LinkChoice {
  double gbps = 0;
  const results::CellRow* row = nullptr;  ///< null: none is quicker than the dense tensor
  double dense_us_per_byte = 0, us_per_byte = std::numeric_limits<double>::quiet_NaN();  ///< of the dense tensor, and of the quickest codec even where it is no quicker
};
std::vector<LinkChoice> choose_for_links(std::span<const results::CellRow> rows, const ChoiceRules& rules);

/// Rows that were measured: the tolerable ones first, by falling ratio, then the others by rising error.
std::vector<const results::CellRow*> ranked(std::span<const results::CellRow> rows, double max_vnmse);

/// Both as tables for people.
void print_choice(std::FILE* to, std::span<const results::CellRow> rows, const ChoiceRules& rules);

}  // namespace thinwire::bench
