#include "experiments/claims/tensor_parallel/cells/probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "experiments/claims/interval.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire::claims::tensor_parallel {
namespace {

const results::CellRow& row_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation) {
  for (const results::CellRow& row : record.rows)
    if (row.method == method && row.tensor == tensor && row.operation == operation) return row;
  throw RuntimeFailure("the record of " + record.program + " on " + std::to_string(record.ranks) + " ranks has no row " + method + ", " + tensor + ", " + operation +
                       "; judge with the programs of one build");
}

Amount amount_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation,
                 std::int64_t results::CellRow::* column) {
  const auto value = [&](const std::string& name) { return row_of(record, method, tensor, name).*column; };
  return {value(operation), value(operation + ", least"), value(operation + ", most")};
}

}  // namespace

CellRequest check_request(const std::string& what, int ranks, const std::string& mode, int seed) {
  CellRequest r;
  r.program = "check_tensor_parallel";
  r.ranks = ranks;
  r.parameters.set("what", what);
  r.parameters.set("mode", mode);
  r.parameters.set("seed", seed);
  r.tags = {"tensor_parallel", "check"};
  r.timed = false;
  return r;
}

double error_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation) {
  return row_of(record, method, tensor, operation).relative_l2;
}
Amount received_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation) {
  return amount_of(record, method, tensor, operation, &results::CellRow::received_bytes);
}
Amount stored_of(const results::CellRecord& record, const std::string& method, const std::string& tensor, const std::string& operation) {
  return amount_of(record, method, tensor, operation, &results::CellRow::dense_bytes);
}

CellRequest unit_request(const UnitCell& cell) {
  CellRequest r;
  r.program = "bench_tensor_parallel";
  r.ranks = cell.ranks;
  r.link = cell.link;
  for (const auto& [name, value] : {std::pair{"mode", cell.mode}, {"gather", cell.gather}, {"unit", cell.unit}}) r.parameters.set(name, value);
  for (const auto& [name, value] : {std::pair{"batch", cell.batch}, {"seq", cell.seq}, {"hidden", cell.hidden}, {"heads", cell.heads}, {"repetitions", cell.repetitions}})
    r.parameters.set(name, value);
  if (cell.seed != 0) r.parameters.set("seed", cell.seed);  // 0 is the program's own: the first repetition is the cell of claims without any
  r.tags = {"tensor_parallel", "timed"};
  return r;
}

std::vector<UnitTimes> unit_times(const results::CellRecord& record) {
  std::vector<UnitTimes> all;
  for (const results::CellRow& row : record.rows) {
    auto found = std::find_if(all.begin(), all.end(), [&](const UnitTimes& t) { return t.method == row.method; });
    if (found == all.end()) all.push_back({row.method, "", ""}), found = all.end() - 1;
    if (row.status == "SKIPPED") found->skipped = row.reason;
    if (row.status == "MISTRUSTED" && found->untrusted.empty()) found->untrusted = row.reason;
    if (row.operation == "forward") found->forward_ms = 1e-3 * row.total_us, found->forward_bytes = static_cast<double>(row.received_bytes);
    if (row.operation == "backward") found->backward_ms = 1e-3 * row.total_us, found->backward_bytes = static_cast<double>(row.received_bytes);
    if (row.operation == "peak memory") found->peak_bytes = static_cast<double>(row.dense_bytes);
  }
  return all;
}

const UnitTimes& of_kind(const std::vector<UnitTimes>& times, GridKind kind) {
  const std::string name = name_of(kind) + " ";
  for (const UnitTimes& t : times)
    if (t.method.rfind(name, 0) == 0) return t;
  throw RuntimeFailure("the record has no " + name_of(kind) + " grid; judge with the programs of one build");
}

std::string emulated_link(double gbps) { return "emulated:" + text_of(gbps) + "gbit,latency=" + text_of(emulated_latency_us) + "us,frame=9000"; }

std::string emulated_links(const std::vector<double>& gbps) {
  std::string text;
  for (const double rate : gbps) text += (text.empty() ? "" : "; ") + emulated_link(rate);
  return text;
}

double model_step_ms(const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms) {
  GridCostOptions options;
  options.broadcast = BroadcastForm::chain_ahead;
  options.vectors = true;
  options.gather = parse_gather_policy(cell.gather);
  PassCost messages = layer_cost(shape, {static_cast<double>(cell.batch), static_cast<double>(cell.seq), static_cast<double>(cell.hidden), static_cast<double>(cell.heads)}, options).step();
  messages.flops = 0;
  const bool summa = shape.kind == GridKind::two_d || shape.kind == GridKind::two_and_half_d;
  return 1e3 * seconds_of({emulated_latency_us, gbps / 8, 1, 4}, messages) + alone_ms / shape.ranks() / (summa ? shape.sides[0] : 1);
}

GridShape shape_of(const UnitTimes& times, int ranks) {
  for (const GridShape& shape : grids_of(ranks))
    if (times.method.rfind(shape.describe(), 0) == 0) return shape;
  throw RuntimeFailure("`" + times.method + "` is no grid of " + std::to_string(ranks) + " ranks; judge with the programs of one build");
}

std::string left_out_rule() {
  return "A point at which any scheme takes in the mean over " + text_of(carried_within) +
         " times the model's step (messages one after the other, and the products that none hides), or whose link was mistrusted, is left out as a whole, listed and counted";
}

void Point::add(const UnitTimes& times, const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms) {
  if (!times.skipped.empty()) return;  // a grid that does not divide the sizes
  if (!times.untrusted.empty() && untrusted_.empty()) untrusted_ = times.method + ": " + times.untrusted;
  late_[times.method].push_back(times.step_ms() / model_step_ms(shape, cell, gbps, alone_ms));
}

double Point::latest() const {
  double most = 0;
  for (const auto& [method, late] : late_) most = std::max(most, interval_of(late).mean);
  return most;
}

std::string Point::why_left_out() const {
  if (!untrusted_.empty()) return untrusted_;
  std::string why;
  for (const auto& [method, late] : late_)
    // Negated: a step that is no number is not carried either.
    if (const double mean = interval_of(late).mean; !(mean <= carried_within))
      why += (why.empty() ? "" : ", ") + method + " takes " + text_of(std::round(100 * mean) / 100);
  return why.empty() ? "" : why + " times what messages and products say";
}

bool LeftOut::contains(const std::string& place, const Point& point) {
  const std::string why = point.why_left_out();
  if (why.empty()) {
    ++judged_;
    return false;
  }
  table_.rows.push_back({place + ": " + why, {point.latest()}});
  places_ += (places_.empty() ? "" : "; ") + place + " (" + why + ")";
  return true;
}

Measure LeftOut::measure() const { return {"points left out", static_cast<double>(table_.rows.size()), no_number, no_number, no_number, ""}; }

std::string LeftOut::note() const {
  const std::size_t out = table_.rows.size();
  return std::to_string(out) + " of " + std::to_string(out + static_cast<std::size_t>(judged_)) + " points left out whole, not carried here" + (places_.empty() ? "" : ": " + places_);
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace thinwire::claims::tensor_parallel
