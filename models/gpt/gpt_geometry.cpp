// Parameters by the layouts that the layers are made with; memory of the 1-D form. A test compares both with a model that is made, another the
// memory with the counters of the allocator.
#include "models/gpt/gpt_geometry.h"

#include <algorithm>

#include "core/error.h"
#include "models/gpt/gpt.h"
#include "models/layout/grid_sharding.h"

namespace thinwire {
namespace {

/// Where each parameter lies on a rank.
class Layouts {
 public:
  explicit Layouts(const TensorSplit& split) : shape_(split.shape), rank_(split.rank), grid_(split.shape.kind != GridKind::one_d) {}

  /// `second`: the projection behind an attention or an expansion.
  LinearLayouts linear(const std::string& name, std::int64_t in, std::int64_t out, bool second) const {
    if (grid_) return grid_linear(shape_, name, in, out, rank_, second);
    return second ? row_parallel(name, in, out, shape_.ranks(), rank_) : column_parallel(name, in, out, shape_.ranks(), rank_);
  }
  ParameterLayout norm(const std::string& name, std::int64_t hidden) const {
    return grid_ ? vector_layout(shape_, name, hidden, rank_, true) : ParameterLayout(name, {hidden}, {}, {}, tensor_group());
  }
  ParameterLayout table(std::int64_t vocab, std::int64_t hidden, const SplitGroups& copies, const char* name = "embedding.token") const {
    const std::int64_t rows = grid_ ? grid_vocabulary(shape_, vocab) : padded_vocabulary(vocab, shape_.ranks());
    if (!grid_) return ParameterLayout(name, {rows, hidden}, tensor_group(), {}, copies).padded_after(vocab);
    const ParameterLayout where = grid_linear(shape_, "embedding.token", rows, hidden, rank_, true).weight;
    SplitGroups replicas = where.replicas();
    replicas.insert(replicas.end(), copies.begin(), copies.end());
    return ParameterLayout("embedding.token", {rows, hidden}, where.row_groups(), where.column_groups(), replicas).padded_after(vocab);
  }
  ParameterLayout position(std::int64_t max_seq, std::int64_t hidden) const {
    if (!grid_) return {"embedding.position", {max_seq, hidden}, {}, {}, tensor_group()};
    const Layout activation = grid_activation(shape_, rank_);
    return {"embedding.position", {max_seq, hidden}, {}, activation.hidden, activation.batch};
  }

 private:
  /// The 1-D group, where there is more than this rank.
  SplitGroups tensor_group() const { return shape_.ranks() > 1 ? SplitGroups{{"tensor", shape_.ranks(), rank_}} : SplitGroups{}; }
  const GridShape shape_;
  const int rank_;
  const bool grid_;
};

DeclaredUnit layer_unit(const ModelConfig& c, int layer, const Layouts& layouts) {
  const std::int64_t h = c.hidden;
  DeclaredUnit unit{.name = "layer" + std::to_string(layer), .layer = layer, .attention = h, .recomputed = true, .tensor_sums = 2};
  const auto norm = [&](const std::string& name) {
    for (const char* vector : {".gamma", ".beta"}) unit.parameters.push_back({layouts.norm(unit.name + name + vector, h)});
  };
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out, bool second) {
    LinearLayouts l = layouts.linear(unit.name + name, in, out, second);
    const StreamRows stream = second ? StreamRows::added : StreamRows::none;
    unit.parameters.push_back({.layout = std::move(l.weight), .decays = true, .stream = stream});
    unit.parameters.push_back({.layout = std::move(l.bias), .stream = stream});
  };
  norm(".attention.norm");
  linear(".attention.qkv", h, 3 * h, false);
  linear(".attention.projection", h, h, true);
  norm(".mlp.norm");
  linear(".mlp.expand", h, 4 * h, false);
  linear(".mlp.projection", 4 * h, h, true);
  return unit;
}

/// Follows what block.cpp, embedding.cpp and gpt.cpp keep.
PassMemory memory_1d(const ModelConfig& c, const ModelPart& part, const TensorSplit& split, const PassShape& pass) {
  const std::int64_t h = c.hidden, t = split.shape.ranks(), rows = pass.rows();
  const bool split_tokens = split.sequence_parallel && t > 1;
  const std::int64_t own = split_tokens ? (rows + t - 1) / t : rows;
  const std::int64_t table = padded_vocabulary(c.vocab, static_cast<int>(t)) / t * h;  // of the head
  // Two normed inputs; qkv, context and expanded: these may be bf16. Middle and output; moments and softmax sums.
  const std::int64_t multiplied = rows * h * 2 + rows * (3 * h + h + 4 * h) / t;
  const std::int64_t layer = (pass.rounds ? multiplied / 2 : multiplied) + 2 * own * h + 4 * own + pass.batch * pass.seq * c.heads / t;
  // Under recomputation the results of tensor sums stay for the second pass, where there are such.
  const std::int64_t of_layer = pass.recompute ? own * h + (t > 1 ? 2 * rows * h : 0) : layer;

  PassMemory m;
  m.boundary = own * h;
  m.saved = own * h + part.layers * of_layer;
  if (part.head) m.saved += rows * h + rows * (table / h) + 2 * own + (t > 1 ? 0 : rows);
  m.again = pass.recompute ? layer : 0;
  m.scratch = rows * 8 * h / t + own * h + rows * h;                    // wide, wide gradient, narrow, narrow2
  if (t > 1) m.scratch += rows * h + (split_tokens ? 2 * own * h : 0);  // partial sums
  if (pass.rounds) m.scratch += (split_tokens ? 0 : own * h) + rows * 2 * h / t + rows * std::max(4 * h / t, h) / 2;  // what a norm gave, and rounded values
  if (part.head) m.kept = table + (t > 1 ? rows * 3 * (1 + t) : 0);     // table gradient, softmax statistics
  if (t > 1) m.converted = 3 * 2 * rows * h;                            // forward, backward and look-up channels: in and out
  return m;
}

}  // namespace

Geometry gpt_geometry(const GptConfig& config, const ModelPart& whole_or_part, const TensorSplit& split) {
  const auto layers = static_cast<int>(config.layers);
  ModelPart part = whole_or_part;
  if (part.layers < 0) part.layers = layers - part.first_layer;
  const Layouts layouts(split);
  const bool grid = split.shape.kind != GridKind::one_d;
  Geometry g;
  g.width = config.hidden;
  const SplitGroups copies = part.whole() || config.own_head ? SplitGroups{} : SplitGroups{{"embedding", 2, part.embedding ? 0 : 1}};
  const DeclaredParameter table{.layout = layouts.table(config.vocab, config.hidden, copies), .decays = true, .tied = !config.own_head, .stream = StreamRows::by_token};
  if (part.embedding) {
    const DeclaredParameter position{.layout = layouts.position(config.max_seq, config.hidden), .decays = true, .stream = StreamRows::added};
    g.units.push_back({.name = "embedding", .layer = -1, .parameters = {table, position}, .tensor_sums = 1});
    for (DeclaredParameter& p : g.units.back().parameters) p.looked_up = true;
  }
  for (int l = part.first_layer; l < part.end_layer(); ++l) g.units.push_back(layer_unit(config, l, layouts));
  if (part.head) {
    const DeclaredParameter gamma{layouts.norm("head.norm.gamma", config.hidden)}, beta{layouts.norm("head.norm.beta", config.hidden)};
    const DeclaredParameter own{.layout = layouts.table(config.vocab, config.hidden, {}, "head.token"), .decays = true};
    g.units.push_back({.name = "head", .layer = layers, .parameters = {config.own_head ? own : table, gamma, beta}});
  }
  g.memory = [config, part, split, grid](const PassShape& pass) {
    return grid ? grid_gpt_memory(config, part, split, pass) : memory_1d(config, part, split, pass);
  };
  return g;
}

std::int64_t GptConfig::parameters() const {
  std::int64_t all = 0;
  for (const DeclaredParameter& p : gpt_geometry(*this, {}, {}).parameters()) all += p.whole();
  return all;
}

}  // namespace thinwire
