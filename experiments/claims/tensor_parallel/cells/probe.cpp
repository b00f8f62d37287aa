#include "experiments/claims/tensor_parallel/cells/probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
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

double model_step_ms(const GridShape& shape, const UnitCell& cell, double gbps, double alone_ms) {
  GridCostOptions options;
  options.broadcast = BroadcastForm::chain_ahead;
  options.vectors = true;
  PassCost messages = layer_cost(shape, {static_cast<double>(cell.batch), static_cast<double>(cell.seq), static_cast<double>(cell.hidden), static_cast<double>(cell.heads)}, options).step();
  messages.flops = 0;
  const bool summa = shape.kind == GridKind::two_d || shape.kind == GridKind::two_and_half_d;
  return 1e3 * seconds_of({emulated_latency_us, gbps / 8, 1, 4}, messages) + alone_ms / shape.ranks() / (summa ? shape.sides[0] : 1);
}

std::string not_carried(const UnitTimes& line, int ranks, const UnitCell& cell, double gbps, double alone_ms) {
  const double late = line.step_ms() / model_step_ms({GridKind::one_d, {ranks, 1, 1}}, cell, gbps, alone_ms);
  return late <= 1.25 ? "" : "1-D takes " + text_of(std::round(100 * late) / 100) + " times what messages and products say";
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace thinwire::claims::tensor_parallel
