// low_communication.C12: factors like 146x and 85x count what one rank sends. A sum of sparse messages is a
// gather, of which each rank sends R - 1 times as much; a dense ring sends 2 (R - 1)/R of the whole. So
// DiLoCo's bytes over SparseLoCo's are 292.6/R on a link, and DeMo sends more than a dense ring in bf16 from
// R = 1365/k on. Counted on up to 16 ranks, and by the sizes of the payloads to 64.
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "kernels/codec/registry.h"

namespace thinwire::claims {
namespace {

constexpr std::int64_t rows = 512, columns = 1024;
constexpr double at_one =
    8 / (14.0 * 64 / 8 / 4096);  // 292.6: a ring of f32 sends 8 bytes (R - 1)/R for every 0.0273 (R - 1)
const std::string sparse = "chunk_topk:k=64,values=codebook2";
const std::vector<int> rank_counts = {2, 4, 8, 16};

/// Released indices and values: 12 bytes for each.
std::string demo(int k) {
  return "chunk_topk:transform=dct,k=" + std::to_string(k) + ",index=int64,values=f32";
}
struct Crossing {
  int k;
  std::vector<int> ranks;  ///< on both sides of 1365/k
};
const std::vector<Crossing> crossings = {{256, {5, 6}}, {128, {10, 11}}};

CellRequest reduction(int ranks, const std::string& codec, const std::string& dense_type) {
  CellRequest r;
  r.program = "bench_gradient", r.ranks = ranks, r.timed = false, r.tags = {"low_communication"};
  for (const auto& [name, value] : std::map<std::string, std::string>{{"dp", std::to_string(ranks)},
                                                                      {"rows", std::to_string(rows)},
                                                                      {"hidden", std::to_string(columns)},
                                                                      {"generator", "gaussian"},
                                                                      {"comm-dtype", dense_type},
                                                                      {"repetitions", "1"},
                                                                      {"codec", codec},
                                                                      {"protocol", "gather"}})
    r.parameters.set(name, value);
  return r;
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int ranks : rank_counts)
    all.push_back({"SparseLoCo, " + std::to_string(ranks) + " ranks", reduction(ranks, sparse, "f32")});
  for (const Crossing& c : crossings)
    for (const int ranks : c.ranks)
      all.push_back({"DeMo, k = " + std::to_string(c.k) + ", " + std::to_string(ranks) + " ranks",
                     reduction(ranks, demo(c.k), "bf16")});
  return all;
}

double payload(const std::string& codec) {
  return static_cast<double>(make_codec(codec).codec->max_payload_bytes({rows, columns}));
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  const auto over = [&](std::size_t cell) {
    const results::CellRow& row = records[cell].rows.front();
    return static_cast<double>(row.baseline_link_bytes) / static_cast<double>(row.link_bytes);
  };
  Table link{"a dense ring in f32 over SparseLoCo's gather, bytes of a rank",
             {"ranks", "counted (x)", "292.6/R", "by payloads (x)"},
             {}},
      demos{"a dense ring in bf16 over DeMo's gather", {"k", "ranks", "counted (x)"}, {}};
  const double dense = 4.0 * static_cast<double>(rows * columns);
  double ratio_off = 0, crossing_off = 0;
  std::size_t next = 0;
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    const double by_payload = 2 * dense / (ranks * payload(sparse)), formula = at_one / ranks;
    const double counted = ranks <= rank_counts.back() ? over(next++) : no_number;
    ratio_off = std::max({ratio_off, std::abs(by_payload / formula - 1),
                          std::isnan(counted) ? 0 : std::abs(counted / formula - 1)});
    link.rows.push_back({"", {static_cast<double>(ranks), counted, formula, by_payload}});
  }
  Finding f;
  for (const Crossing& c : crossings) {
    const double below = 1 / over(next), above = 1 / over(next + 1);
    for (std::size_t i = 0; i < 2; ++i)
      demos.rows.push_back({"", {static_cast<double>(c.k), static_cast<double>(c.ranks[i]), over(next + i)}});
    next += 2;
    const double crossing = below < 1 && above >= 1
                                ? c.ranks[0] + (c.ranks[1] - c.ranks[0]) * (1 - below) / (above - below)
                                : INFINITY,
                 formula = 16384.0 / 12 / c.k;
    crossing_off = std::max(crossing_off, std::abs(crossing / formula - 1));
    f.measures.push_back({"ranks from which DeMo sends more than a ring in bf16, k = " + std::to_string(c.k),
                          crossing, no_number, no_number, formula, "ranks"});
  }
  f.measures.push_back({"dense over SparseLoCo, counted and by payloads, from 292.6/R, the largest distance",
                        ratio_off, no_number, no_number, 0.02, "of it", "ratio_off"});
  f.measures.push_back({"DeMo's crossing from 1365/k, the largest distance", crossing_off, no_number,
                        no_number, 0.02, "of it", "crossing_off"});
  f.tables = {std::move(link), std::move(demos)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_communication.C12",
     .statement = "The headline factors 146x and 85x count one sender, not a link.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms(
         {.quantities =
              {{"ratio_off",
                "bytes that a rank sends in a ring of f32 over those in a gather of SparseLoCo's messages, "
                "from 292.6/R: counted on 2, 4, 8 and 16 ranks, by the payload's size to 64; the largest "
                "distance"},
               {"crossing_off",
                "number of ranks at which a gather of DeMo's messages (12 bytes a value) sends as much as a "
                "ring in bf16, by a straight line between counted ones, from 1365/k, the largest distance"}},
          .constants = {{"near", 0.02, "of the formula"}},
          .clauses = {{Verdict::pass, "ratio_off <= near && crossing_off <= near"}},
          .otherwise = Verdict::fail},
         requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
