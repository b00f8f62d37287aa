// low_communication.C2: bytes that replicas send are those of the page's table, counted over two outer steps
// (of Dion: two steps). Headers, which the table leaves out, stand apart: code books, and what is sent dense
// of vectors beside a codec.
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::int64_t hidden = 64, layers = 1, seq = 64, rounds = 2, book_of_4 = 16, book_of_256 = 1024;
const std::vector<int> replica_counts = {2, 4, 8};

/// Rows and columns of all matrices, by hand: token table, positions, the four of a layer.
const std::vector<std::pair<std::int64_t, std::int64_t>> of_layers = {
    {hidden, 3 * hidden}, {hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}};

struct Method {
  std::string name;
  Settings settings;
  std::string traffic = "outer_gradient";
  int steps = 4;  ///< two rounds of two
};
const std::vector<Method> methods = {
    {"dense", {{"optimizer", "adamw"}}, "dp_gradient", 2},
    {"local SGD", {{"optimizer", "adamw+local_sgd:inner_steps=2"}}},
    {"DiLoCo", {{"optimizer", "adamw+diloco:inner_steps=2"}}},
    {"DiLoCo, 8 bits in two shots",
     {{"optimizer", "adamw+diloco:inner_steps=2"},
      {"compress.outer_gradient", "codebook:bins=256,centre=zero"},
      {"compress.outer_gradient.protocol", "two_shot"}}},
    {"Streaming DiLoCo",
     {{"optimizer", "adamw+streaming_diloco:inner_steps=2,fragments=2,overlap=0"}, {"layers", "2"}}},
    {"SparseLoCo",
     {{"optimizer", "adamw+local_sgd:inner_steps=2"},
      {"compress.outer_gradient", "chunk_topk:k=64,values=codebook2+ef:beta=0.95"}}},
    {"MuLoCo", {{"optimizer", "muon+diloco:inner_steps=2"}}},
    {"Dion, a quarter", {{"optimizer", "dion:rank_fraction=0.25"}}, "dp_gradient", 2}};

CellRequest request(const Method& method, int replicas) {
  Settings s = {{"layers", std::to_string(layers)},
                {"hidden", std::to_string(hidden)},
                {"seq", std::to_string(seq)},
                {"steps", std::to_string(method.steps)}};
  if (method.traffic == "outer_gradient") s["dp-replicas"] = std::to_string(replicas);
  for (const auto& [name, value] : method.settings) s.insert_or_assign(name, value);
  CellRequest r = training(replicas, s);
  r.tags = {"low_communication"};
  return r;
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int replicas : replica_counts)
    for (const Method& method : methods)
      all.push_back({method.name + ", " + std::to_string(replicas) + " replicas", request(method, replicas)});
  return all;
}

/// Bytes of all ranks over both rounds by the table, and what it leaves out.
struct Formula {
  double table = 0, headers = 0;
};
Formula formula_of(const Method& method, int replicas) {
  const TrainConfig config = config_of(request(method, replicas));
  const auto vectors = static_cast<double>(vector_elements(config)),
             all = static_cast<double>(matrices_of(config).all()) + vectors;
  const double others = replicas - 1, ring = 2 * others;  // of all ranks together, for each byte of the whole
  std::vector<std::pair<std::int64_t, std::int64_t>> matrices = {{config.model.vocab, hidden}, {seq, hidden}};
  for (std::int64_t l = 0; l < config.model.layers; ++l)
    matrices.insert(matrices.end(), of_layers.begin(), of_layers.end());
  const auto count = static_cast<double>(matrices.size());
  Formula f;
  if (method.name == "SparseLoCo") {
    double values = 0;
    for (const auto& [rows, columns] : matrices)
      values += 64.0 * static_cast<double>((rows + 63) / 64 * ((columns + 63) / 64));
    f.table = replicas * others * values * 14 / 8;  // a gather: every rank's message to every other
    f.headers = replicas * others * count * book_of_4 + ring * 4 * vectors;
  } else if (method.name.starts_with("DiLoCo, 8 bits")) {
    f.table = ring * (all - vectors);
    f.headers = 2 * replicas * others * count * book_of_256 + ring * 4 * vectors;
  } else if (method.name.starts_with("Dion")) {
    double factors = 0;
    for (const auto& [rows, columns] : of_layers)
      factors += static_cast<double>((rows + columns) * std::min(rows, columns) / 4);
    f.table = ring * 4 * factors * static_cast<double>(config.model.layers);
    f.headers = ring * 4 * (all - static_cast<double>(matrices_of(config).layers));  // of AdamW
  } else {
    f.table = ring * 4 * all;
  }
  return {rounds * f.table, rounds * f.headers};
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table table{"bytes of all ranks over two rounds",
              {"replicas", "counted", "the table's", "headers and what travels dense beside"},
              {}};
  double off = 0;
  std::size_t next = 0;
  for (const int replicas : replica_counts)
    for (const Method& method : methods) {
      std::int64_t counted = 0;
      for (int step = 0; step < method.steps; ++step) counted += sent(records[next], method.traffic, step);
      ++next;
      const Formula f = formula_of(method, replicas);
      off = std::max(off, std::abs(static_cast<double>(counted) - f.table - f.headers));
      table.rows.push_back(
          {method.name, {static_cast<double>(replicas), static_cast<double>(counted), f.table, f.headers}});
    }
  Finding found;
  found.measures = {{"counted bytes from the table's and headers, the largest distance", off, no_number,
                     no_number, 0, "bytes", "off"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "low_communication.C2",
     .statement = "Bytes are those of the cost table.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule =
         with_arms({.quantities = {{"off",
                                    "bytes that all ranks send over two rounds (Dion and dense: two steps), "
                                    "counted, less the table's (docs/papers/low_communication.md) and those "
                                    "of code books and of vectors, which travel "
                                    "dense; the largest distance of all methods on 2, 4 and 8 replicas"}},
                    .clauses = {{Verdict::pass, "off == 0"}},
                    .otherwise = Verdict::fail},
                   requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
