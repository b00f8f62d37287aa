// What the claims of tensor parallelism take from programs that run on ranks: numbers of check_tensor_parallel, timed and counted passes of
// bench_tensor_parallel.
#pragma once

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
inline constexpr double emulated_latency_us = 20;

/// What the cost model makes of the step of a layer, in milliseconds; `alone_ms`: of the same layer on one rank. A step is its messages one
/// after the other, and the products that no message hides: SUMMA multiplies a block while the next one travels, so of q products one
/// stays; the others wait for what they multiply.
double model_step_ms(const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms);
/// Why an emulated link of this rate is not believed with so many ranks on these cores, which must move the bytes in the meantime: 1-D takes
/// over 1.25 times the model's step. Empty: it is.
std::string not_carried(const UnitTimes& line, int ranks, const UnitCell& cell, double gbps, double alone_ms);

/// A number as people write it.
std::string text_of(double value);

}  // namespace thinwire::claims::tensor_parallel
