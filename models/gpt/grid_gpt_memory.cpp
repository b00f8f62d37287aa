// Memory of a GPT's passes on a grid: follows what its layers allocate (models/layers/grid_*.h). Shards are sums over layouts; what lives within
// one call is the pool's (models/gpt/grid_footprint.h).
#include <algorithm>

#include "models/gpt/gpt_geometry.h"
#include "models/gpt/grid_footprint.h"
#include "models/layout/grid_sharding.h"

namespace thinwire {
namespace {

using Lent = Footprint::Lent;

/// The sizes of a part on one rank.
class GridModelSizes {
 public:
  GridModelSizes(const ModelConfig& c, const ModelPart& part, const TensorSplit& split, const PassShape& pass)
      : c_(c),
        part_(part),
        pass_(pass),
        shape_(split.shape),
        rank_(split.rank),
        box_(shape_.kind == GridKind::three_d),
        outer_(grid_activation(shape_, rank_)),
        inner_(grid_activation(shape_, rank_, true)),
        h_(c.hidden),
        rows_(pass.rows()),
        vocab_(grid_vocabulary(shape_, c.vocab)),
        footprint_(shape_) {}

  std::int64_t own_rows() const { return rows_ / parts_of(outer_.batch); }
  std::int64_t inner_rows() const { return rows_ / parts_of(inner_.batch); }
  /// Of a [rows, hidden] activation; equal in both layouts.
  std::int64_t shard() const { return own_rows() * h_ / parts_of(outer_.hidden); }

  /// What a layer keeps of a micro-batch: two normed inputs, qkv (3), context, middle, expanded (4), output; moments and softmax sums.
  std::int64_t layer() const {
    return 12 * shard() + 4 * own_rows() + inner_rows() * c_.heads / parts_of(inner_.hidden);
  }
  std::int64_t head() const { return part_.head ? shard() + 2 * own_rows() + inner_rows() * vocab_ / parts_of(inner_.hidden) : 0; }
  /// Gathered vectors that a layer keeps room for, and the table's gradient of the head.
  std::int64_t kept_by_layers() const {
    const std::int64_t inner = parts_of(inner_.hidden), outer = parts_of(outer_.hidden);
    return part_.layers * (7 * h_ / inner + 2 * h_ / outer + 4 * h_ / outer) + (part_.head ? 2 * h_ / outer + table() : 0);
  }

  /// Walks through micro-batches until the pool has all that it needs.
  const Footprint& walk() {
    for (int micro = 0; micro < 2; ++micro) {
      if (part_.embedding) embed();
      for (int layer = 0; layer < 2; ++layer) layer_forward();
      if (part_.head) head_both_ways();
      for (int layer = 0; layer < 2; ++layer) layer_backward();
      if (part_.embedding) embed_backward();
    }
    return footprint_;
  }

 private:
  std::int64_t table() const { return grid_linear(shape_, "", vocab_, h_, rank_, true).weight.local().elements(); }
  void product(std::int64_t in, std::int64_t out, bool swapped, bool transposed, bool backward) {
    const int in_parts = parts_of(swapped ? inner_.hidden : outer_.hidden), out_parts = parts_of(swapped ? outer_.hidden : inner_.hidden);
    const ProductSizes p{box_ ? rows_ / shape_.sides[0] : own_rows(), in / in_parts, out / out_parts, swapped, transposed};
    if (box_)
      backward ? backward_3d(footprint_, p) : forward_3d(footprint_, p);
    else
      backward ? backward_2d(footprint_, p) : forward_2d(footprint_, p);
  }
  /// A bias, scale or shift: pieces in 3-D, and the reduced gradient.
  void vector(std::int64_t extent, bool swapped, bool backward) {
    const VectorAxes axes = vector_axes(shape_, swapped);
    const std::int64_t whole = extent / footprint_.size(axes.columns), piece = axes.sub < 0 ? whole : whole / footprint_.size(axes.sub);
    const Lent cut(footprint_, axes.sub < 0 ? 0 : footprint_.over(axes.sub, piece)), reduced(footprint_, backward ? piece : 0);
  }
  void linear(std::int64_t in, std::int64_t out, bool swapped, bool backward) {
    vector(out, swapped, backward);
    product(in, out, swapped, false, backward);
  }
  void norm(bool backward) {
    Footprint& f = footprint_;
    f.all_reduce(GridUse::exact, vector_axes(shape_, true).columns, 2 * own_rows());
    const std::int64_t columns = backward ? h_ / parts_of(outer_.hidden) : 0;
    if (!backward) vector(h_, true, false), vector(h_, true, false);
    const Lent sums(f, 2 * own_rows()), scale(f, columns), shift(f, columns);
    if (backward) vector(h_, true, true), vector(h_, true, true);
  }

  void layer_forward() {
    norm(false);
    linear(h_, 3 * h_, false, false);
    linear(h_, h_, true, false);
    norm(false);
    linear(h_, 4 * h_, false, false);
    const Lent activated(footprint_, 4 * shard());
    linear(4 * h_, h_, true, false);
  }
  void layer_backward() {
    Footprint& f = footprint_;
    const std::int64_t n = shard();
    if (pass_.recompute) layer_forward();
    const Lent branch(f, c_.dropout > 0 ? n : 0), gradient(f, n);
    {
      Lent activated(f, 4 * n);
      const Lent wide(f, 4 * n);
      linear(4 * h_, h_, true, true);
      activated.release();
      linear(h_, 4 * h_, false, true);
    }
    norm(true);
    {
      Lent context(f, n);
      const Lent wide(f, 3 * n);
      linear(h_, h_, true, true);
      context.release();
      linear(h_, 3 * h_, false, true);
    }
    norm(true);
  }
  void head_both_ways() {
    Footprint& f = footprint_;
    norm(false);
    product(h_, vocab_, false, true, false);
    {
      const Lent statistics(f, 3 * inner_rows()), maxima(f, inner_rows()), sums(f, 2 * inner_rows());
      const int axis = vector_axes(shape_, false).columns;
      f.all_reduce(GridUse::maximum, axis, inner_rows());
      f.all_reduce(GridUse::exact, axis, 2 * inner_rows());
    }
    const Lent normed(f, shard());
    product(h_, vocab_, false, true, true);
    norm(true);
  }
  /// Of a rank's columns: its block of the vocabulary, and the rows of its line, for which it looks up.
  std::int64_t table_block() const { return vocab_ / shape_.sides[1] * (h_ / parts_of(outer_.hidden)); }
  std::int64_t line() const { return shard() * shape_.sides[1]; }
  void embed() {
    Footprint& f = footprint_;
    const Lent table(f, box_ ? f.over(weight_axis, table_block()) : 0), partial(f, f.over(down_column, line()));
    if (box_) f.all_gather(GridUse::weight, weight_axis, table_block());
    f.reduce_scatter(GridUse::look_up, down_column, line());
  }
  void embed_backward() {
    Footprint& f = footprint_;
    const std::int64_t positions = std::min(pass_.seq, c_.max_seq) * h_ / parts_of(outer_.hidden);
    const Lent rows(f, f.over(down_column, line())), sums(f, table_block()), shard_of_sums(f, box_ ? f.over(weight_axis, table_block() / shape_.sides[0]) : 0),
        all_positions(f, positions);
    f.all_gather(GridUse::look_up, down_column, line());
    if (box_)
      f.reduce_scatter(GridUse::weight_gradient, weight_axis, table_block());
    else
      f.all_reduce(GridUse::weight_gradient, over_depth, table_block());
    for (const int axis : {down_column, box_ ? weight_axis : over_depth}) f.all_reduce(GridUse::exact, axis, positions);
  }

  const ModelConfig& c_;
  const ModelPart& part_;
  const PassShape& pass_;
  const GridShape shape_;
  const int rank_;
  const bool box_;
  const Layout outer_, inner_;
  const std::int64_t h_, rows_, vocab_;
  Footprint footprint_;
};

}  // namespace

PassMemory grid_gpt_memory(const ModelConfig& config, const ModelPart& part, const TensorSplit& split, const PassShape& pass) {
  GridModelSizes sizes(config, part, split, pass);
  PassMemory m;
  m.boundary = sizes.shard();
  m.saved = sizes.shard() + part.layers * (pass.recompute ? sizes.shard() : sizes.layer()) + sizes.head();
  m.again = pass.recompute ? sizes.layer() : 0;
  m.kept = sizes.kept_by_layers();
  const Footprint& f = sizes.walk();
  m.scratch = f.pool();
  f.add_channels(m);
  return m;
}

}  // namespace thinwire
