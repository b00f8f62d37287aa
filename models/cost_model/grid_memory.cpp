// Follows what the layers of a grid allocate (models/layers/grid_*.h). Shards are sums over layouts; what lives within one call is the
// pool's (models/cost_model/grid_footprint.h).
#include "models/cost_model/grid_memory.h"

#include <algorithm>
#include <vector>

#include "models/cost_model/grid_footprint.h"
#include "models/cost_model/stored_bytes.h"
#include "models/layout/grid_sharding.h"
#include "models/parallel/tensor/tensor_grid.h"
#include "models/store/parameter_store.h"

namespace thinwire {
namespace {

using Lent = Footprint::Lent;
constexpr int weight_axis = 0, down_column = 1, over_depth = 2;  // 3-D: weights, input; 2-D: row, column, depth

/// The sizes of a model on one rank.
class GridModelSizes {
 public:
  GridModelSizes(const TrainConfig& c, const MeshCoordinates& at)
      : c_(c),
        shape_(parse_grid(c.tensor_parallel, c.mesh.tp)),
        rank_(at.tp),
        box_(shape_.kind == GridKind::three_d),
        outer_(grid_activation(shape_, rank_)),
        inner_(grid_activation(shape_, rank_, true)),
        h_(c.model.hidden),
        rows_(c.micro_batch * c.seq),
        vocab_(grid_vocabulary(shape_, c.model.vocab)),
        layers_(c.model.layers / c.mesh.pp),
        first_(at.pp == 0),
        last_(at.pp == c.mesh.pp - 1),
        footprint_(shape_) {}

  std::int64_t own_rows() const { return rows_ / parts_of(outer_.batch); }
  std::int64_t inner_rows() const { return rows_ / parts_of(inner_.batch); }
  /// Of a [rows, hidden] activation; equal in both layouts.
  std::int64_t shard() const { return own_rows() * h_ / parts_of(outer_.hidden); }

  struct Parameters {
    std::int64_t matrices = 0, vectors = 0, table = 0;
    std::int64_t all() const { return matrices + vectors + table; }
  };
  Parameters parameters() const {
    Parameters p;
    const auto vector = [&](std::int64_t n, bool swapped) { return vector_layout(shape_, "", n, rank_, swapped).local().elements(); };
    p.vectors = layers_ * (vector(3 * h_, false) + vector(4 * h_, false) + 2 * vector(h_, true) + 4 * vector(h_, true));
    if (last_) p.vectors += 2 * vector(h_, true);
    if (first_ || last_) p.table = matrix(vocab_, h_, true);
    for (const std::int64_t elements : matrices()) p.matrices += elements;
    if (c_.mesh.pp == 1) p.matrices -= p.table;
    return p;
  }
  /// One by one, the table among them where one stage holds all of it.
  std::vector<std::int64_t> matrices() const {
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      for (const std::int64_t elements : {matrix(h_, 3 * h_, false), matrix(h_, h_, true), matrix(h_, 4 * h_, false), matrix(4 * h_, h_, true)}) all.push_back(elements);
    if (first_) all.push_back(c_.model.max_seq * h_ / parts_of(outer_.hidden));
    if (c_.mesh.pp == 1) all.push_back(matrix(vocab_, h_, true));
    return all;
  }

  /// What a layer keeps of a micro-batch: two normed inputs, qkv (3), context, middle, expanded (4), output; moments and softmax sums.
  std::int64_t layer() const {
    return 12 * shard() + 4 * own_rows() + inner_rows() * c_.model.heads / parts_of(inner_.hidden);
  }
  std::int64_t head() const { return last_ ? shard() + 2 * own_rows() + inner_rows() * vocab_ / parts_of(inner_.hidden) : 0; }
  /// Gathered vectors that a layer keeps room for, and the table's gradient of the head.
  std::int64_t kept_by_layers() const {
    const std::int64_t inner = parts_of(inner_.hidden), outer = parts_of(outer_.hidden);
    return layers_ * (7 * h_ / inner + 2 * h_ / outer + 4 * h_ / outer) + (last_ ? 2 * h_ / outer + parameters().table : 0);
  }

  /// Walks through micro-batches until the pool has all that it needs.
  const Footprint& walk() {
    for (int micro = 0; micro < 2; ++micro) {
      if (first_) embed();
      for (int layer = 0; layer < 2; ++layer) layer_forward();
      if (last_) head_both_ways();
      for (int layer = 0; layer < 2; ++layer) layer_backward();
      if (first_) embed_backward();
    }
    return footprint_;
  }

 private:
  std::int64_t matrix(std::int64_t in, std::int64_t out, bool swapped) const {
    return grid_linear(shape_, "", in, out, rank_, swapped).weight.local().elements();
  }
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
    if (c_.recompute) layer_forward();
    const Lent branch(f, c_.model.dropout > 0 ? n : 0), gradient(f, n);
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
    const std::int64_t positions = std::min(c_.seq, c_.model.max_seq) * h_ / parts_of(outer_.hidden);
    const Lent rows(f, f.over(down_column, line())), sums(f, table_block()), shard_of_sums(f, box_ ? f.over(weight_axis, table_block() / shape_.sides[0]) : 0),
        all_positions(f, positions);
    f.all_gather(GridUse::look_up, down_column, line());
    if (box_)
      f.reduce_scatter(GridUse::weight_gradient, weight_axis, table_block());
    else
      f.all_reduce(GridUse::weight_gradient, over_depth, table_block());
    for (const int axis : {down_column, box_ ? weight_axis : over_depth}) f.all_reduce(GridUse::exact, axis, positions);
  }

  const TrainConfig& c_;
  const GridShape shape_;
  const int rank_;
  const bool box_;
  const Layout outer_, inner_;
  const std::int64_t h_, rows_, vocab_, layers_;
  const bool first_, last_;
  Footprint footprint_;
};

}  // namespace

MemoryEstimate estimate_grid_memory(const TrainConfig& c, const MeshCoordinates& at, std::int64_t live) {
  const std::int64_t size = c.dtype == DType::f64 ? 8 : 4, wire = c.dtype == DType::f64 ? 8 : static_cast<std::int64_t>(size_of(c.comm_dtype));
  GridModelSizes sizes(c, at);
  const GridModelSizes::Parameters p = sizes.parameters();
  MemoryEstimate m;
  const std::int64_t split = p.matrices + (c.mesh.pp == 1 ? p.table : 0);
  const StoredBytes stored = stored_bytes(c, split, p.all() - split, size);
  m.weights = stored.weights, m.gradients = stored.gradients, m.optimizer = stored.optimizer;
  const bool sharded = c.mesh.data().within_replica() > 1 && store_info(c.zero_stage).shards_gradients;

  const std::int64_t chunk_layers = c.model.layers / c.mesh.pp / c.virtual_stages;
  const std::int64_t per_micro = sizes.shard() + chunk_layers * (c.recompute ? sizes.shard() : sizes.layer()) + sizes.head();
  m.activations = (live * per_micro + (c.recompute ? sizes.layer() : 0)) * size;

  const Footprint& f = sizes.walk();
  m.workspace = (sizes.kept_by_layers() + f.pool() + sizes.shard() * (c.mesh.pp > 1 ? 2 : 1)) * size + f.channel_bytes(size, wire);
  // Sums over replicas and of the tied table: packed buckets, and of the largest message two blocks of a ring and the conversions.
  const auto ring = [&](std::int64_t elements, std::int64_t ranks) {
    if (ranks > 1) m.workspace += 2 * ((elements + ranks - 1) / ranks) * wire + (wire != size ? 2 * elements * wire : 0);
  };
  if (c.mesh.dp > 1) {
    const auto bucket = static_cast<std::int64_t>(c.bucket_cap_mb * (1 << 20)) / size;
    std::int64_t packed = p.vectors, alone = 0;
    for (const std::int64_t elements : sizes.matrices()) {
      if (sharded || elements >= bucket)
        alone = std::max(alone, elements);
      else
        packed += elements;
    }
    m.workspace += packed * size;
    ring(std::max(alone, std::min(bucket, packed)), c.mesh.dp);
    if (c.mesh.pp > 1) ring(p.table, c.mesh.dp);
  }
  if (c.mesh.pp > 1) ring(p.table, 2);
  if (wire != size && c.mesh.pp > 1) m.workspace += 4 * sizes.shard() * wire;
  return m;
}

}  // namespace thinwire
