#include "experiments/claims/tensor_parallel/probe.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"

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

std::string emulated_link(double gbps) { return "emulated:" + text_of(gbps) + "gbit,latency=" + text_of(emulated_latency_us) + "us"; }

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace thinwire::claims::tensor_parallel
