// gradient_compression.C5: bytes of TAGC's sum of a sharded unit, 1/c of the dense reduce-scatter for the counters and b/32 for the index; the authors all-reduce the index,
// which costs it twice. Counted in bench_gradient, whose reduce-scatter sends each bit of index once: what the index alone costs is the difference of b = 4 and b = 1. Then the
// gradients of the GPT-2 script (docs/papers/gradient_compression.md, "Cost") by these ratios.
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::int64_t rows = 96, elements = rows * 1024;  ///< a rank of 8 owns whole rows of 1024, 4 of them to a row of counters: no tails
const std::vector<int> all_ranks = {2, 4, 8};

struct Setting {
  int ratio, bits;
};
const std::vector<Setting> settings = {{2, 1}, {2, 4}, {4, 1}, {4, 4}};

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int ranks : all_ranks)
    for (const Setting& s : settings) {
      const std::string c = std::to_string(s.ratio), b = std::to_string(s.bits);
      all.push_back({std::to_string(ranks) + " ranks, c = " + c + ", b = " + b,
                     reduction_request(ranks, rows, "sketch:ratio=" + c + ",index_bits=" + b, {{"operation", "reduce_scatter"}})});
    }
  return all;
}

/// Elements of the GPT-2 script's units by where they lie.
constexpr double mlp = 56623104, embeddings = 77266944, attention = 28311552, positions = 393216, layernorms = 19200, all_elements = mlp + embeddings + attention + positions + layernorms;
struct Plan {
  std::string set;
  double compressed;
  Setting setting;
};
const std::vector<Plan> plans = {{"MLP + embeddings (release)", mlp + embeddings, {2, 1}}, {"MLP + embeddings", mlp + embeddings, {2, 4}}, {"MLP + embeddings", mlp + embeddings, {4, 1}},
                                 {"all layers", all_elements - layernorms, {2, 1}}, {"all layers", all_elements - layernorms, {4, 4}}, {"MLP only", mlp, {2, 1}}};

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table counted{"sent per rank over the dense reduce-scatter", {"ranks", "c", "b", "counted", "1/c + b/32", "index alone", "with the index all-reduced", "1/c + 2b/32"}, {}};
  double off = 0, off_released = 0;
  for (std::size_t n = 0; n < all_ranks.size(); ++n) {
    const auto bytes_of = [&](int ratio, int bits) {
      for (std::size_t s = 0; s < settings.size(); ++s)
        if (settings[s].ratio == ratio && settings[s].bits == bits) return static_cast<double>(records[n * settings.size() + s].rows.front().link_bytes);
      return no_number;
    };
    const double ranks = all_ranks[n], dense = (ranks - 1) / ranks * 4 * static_cast<double>(elements);
    for (const Setting& s : settings) {
      const double sent = bytes_of(s.ratio, s.bits), index = (bytes_of(s.ratio, 4) - bytes_of(s.ratio, 1)) / 3 * s.bits;
      const double ours = 1.0 / s.ratio + s.bits / 32.0, released = ours + s.bits / 32.0;
      off = std::fmax(off, std::abs(sent - ours * dense)), off_released = std::fmax(off_released, std::abs(sent + index - released * dense));
      counted.rows.push_back({"", {ranks, static_cast<double>(s.ratio), static_cast<double>(s.bits), sent / dense, ours, index / dense, (sent + index) / dense, released}});
    }
  }
  Table planned{"gradients of the GPT-2 script, change of bytes (%)", {"c", "b", "as released", "as counted here"}, {}};
  for (const Plan& p : plans) {
    const double bits = p.setting.bits / 32.0, counters = 1.0 / p.setting.ratio, share = p.compressed / all_elements;
    planned.rows.push_back({p.set, {static_cast<double>(p.setting.ratio), static_cast<double>(p.setting.bits), 100 * share * (counters + 2 * bits - 1), 100 * share * (counters + bits - 1)}});
  }
  Finding f;
  f.measures = {{"counted bytes of a rank from 1/c + b/32 of the reduce-scatter, the largest distance", off, no_number, no_number, 0, "bytes", "off"},
                {"the same with the index counted twice, from 1/c + 2b/32", off_released, no_number, no_number, 0, "bytes", "released"},
                {"release setting, change of the script's gradient bytes", planned.rows.front().values[2], no_number, no_number, -36.0, "%"},
                {"the same with one reduction of the index", planned.rows.front().values[3], no_number, no_number, no_number, "%"}};
  f.tables = {std::move(counted), std::move(planned)};
  f.note = "our reduce-scatter needs 1/c + b/32; the claim's second b/32 is the all-reduce of an index that only its owner reads";
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C5",
     .statement = "TAGC's bytes are 1/c + 2b/32 of the reduce-scatter.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.settings = {{"the script's gradients", "by arithmetic, from elements of its units and the counted ratios"}},
                                         .quantities = {{"off", "bytes that a rank sends, counted, less (1/c + b/32) of the dense reduce-scatter's, the largest distance; nothing is left over: whole rows of counters"},
                                                        {"released", "the same of what it sends and the index once more, less (1/c + 2b/32); the index is the difference of the cells of b = 4 and b = 1, over 3, times b"}},
                                         .clauses = {{Verdict::pass, "off == 0 && released == 0"}},
                                         .otherwise = Verdict::fail},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
