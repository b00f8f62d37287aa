// What the claims of tensor parallelism take from programs that run on ranks: numbers of check_tensor_parallel, timed and counted passes of
// bench_tensor_parallel.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/claims/context.h"
#include "models/layout/grid_shape.h"

namespace thinwire::claims::tensor_parallel {

// ---- check_tensor_parallel ----

/// `what` as its option; `mode` all: every grid of the ranks.
CellRequest check_request(const std::string& what, int ranks, const std::string& mode = "all", int seed = 1);

/// Bytes: the sum over ranks, the least and the most of one rank.
struct Amount {
  std::int64_t sum = 0, least = 0, most = 0;
};
// RuntimeFailure naming the row where a record lacks it: a number that is not there is no number.
double error_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation);
Amount received_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation);
Amount stored_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation);

// ---- bench_tensor_parallel ----

struct UnitCell {
  int ranks = 8;
  std::string link = "shm", mode = "all", gather = "again", unit = "layer";
  int batch = 16, seq = 64, hidden = 256, heads = 16;
  int repetitions = 5;
  int seed = 0;  ///< of weights and inputs; cells of different repetitions of a claim differ in it alone
};
CellRequest unit_request(const UnitCell& cell);

/// Of one mode of a cell. Milliseconds: median over repetitions of the slowest rank; bytes: received per rank, mean.
struct UnitTimes {
  std::string method, skipped, untrusted;  ///< why it was not run, or why its link is not believed; empty: measured well
  double forward_ms = no_number, backward_ms = no_number;
  double forward_bytes = 0, backward_bytes = 0, peak_bytes = 0;
  double step_ms() const { return forward_ms + backward_ms; }
};
std::vector<UnitTimes> unit_times(const results::CellRecord& record);
/// The one of this kind; RuntimeFailure where there is none.
const UnitTimes& of_kind(const std::vector<UnitTimes>& times, GridKind kind);

/// What the claims of this page call a link of that rate: an emulated one of 20 us and frames of 9000 bytes, between which small messages go.
std::string emulated_link(double gbps);
/// Several of them, for a rule's settings.
std::string emulated_links(const std::vector<double>& gbps);
inline constexpr double emulated_latency_us = 20;

/// What the cost model makes of the step of a layer, in milliseconds; `alone_ms`: of the same layer on one rank. A step is its messages one
/// after the other, and the products that no message hides: SUMMA multiplies a block while the next one travels, so of q products one
/// stays; the others wait for what they multiply.
double model_step_ms(const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms);
/// The grid of these times. RuntimeFailure where these ranks make no such grid.
GridShape shape_of(const UnitTimes& times, int ranks);

/// With many ranks on few cores, which must move the bytes in the meantime, an emulated link is not believed where a scheme takes over so
/// many times the model's step.
inline constexpr double carried_within = 1.25;
/// What a rule says of it.
std::string left_out_rule();

/// A point of a comparison: the schemes at one link, batch and number of ranks, over repetitions. It is left out as a whole where a cell was
/// mistrusted, or where any scheme, whichever it favours, takes in the mean over `carried_within` times the model's step.
class Point {
 public:
  /// One repetition of a scheme; `cell`: its batch, sizes and policy; `alone_ms`: the same layer on one rank.
  void add(const UnitTimes& times, const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms);
  /// Empty: it is judged.
  std::string why_left_out() const;
  /// Largest mean over repetitions of a scheme's step over the model's.
  double latest() const;

 private:
  std::map<std::string, std::vector<double>> late_;  ///< by scheme
  std::string untrusted_;
};

/// The points of a claim that were left out: listed and counted, beside those that were judged.
class LeftOut {
 public:
  /// True, and listed, where the point cannot be judged.
  bool contains(const std::string& place, const Point& point);
  int judged() const { return judged_; }
  Measure measure() const;
  Table table() const { return table_; }
  /// "2 of 6 points left out whole: ...".
  std::string note() const;

 private:
  Table table_{"points left out", {"slowest scheme over the model (x)"}, {}};
  std::string places_;
  int judged_ = 0;
};

/// A number as people write it.
std::string text_of(double value);

}  // namespace thinwire::claims::tensor_parallel
