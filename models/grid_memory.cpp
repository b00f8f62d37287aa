// Follows what the layers of a grid allocate (models/layers/grid_*.h, product_2d.cpp, product_3d.cpp) and send, with sizes in the place of
// tensors. Shards are sums over layouts. What lives within one call comes from a pool that all layers share, so its most counts, not its sum;
// every line of ranks keeps the buffers of the largest message of each kind.
#include "models/grid_memory.h"

#include <algorithm>
#include <array>

#include "models/grid_sharding.h"
#include "models/tensor_grid.h"

namespace thinwire {
namespace {

constexpr int input_axis = 1, output_axis = 2, weight_axis = 0;       // 3-D
constexpr int along_row = 0, down_column = 1, over_depth = 2;  // 2-D, 2.5-D

/// What one call after another borrows and sends, in elements.
class Footprint {
 public:
  explicit Footprint(const GridShape& shape) : shape_(shape) {}

  /// Lent from here to the end of the scope.
  class Lent {
   public:
    Lent(Footprint& to, std::int64_t elements) : to_(to), elements_(elements) { to_.most_ = std::max(to_.most_, to_.now_ += elements); }
    ~Lent() { to_.now_ -= elements_; }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

   private:
    Footprint& to_;
    std::int64_t elements_;
  };
  int size(int axis) const { return shape_.sides[static_cast<std::size_t>(axis)]; }
  /// Of a gathered tensor of this size: nothing where the line has one rank.
  std::int64_t over(int axis, std::int64_t elements) const { return size(axis) > 1 ? elements : 0; }

  void all_gather(GridUse use, int axis, std::int64_t whole) { note(use, axis, whole / size(axis), whole, 0); }
  void reduce_scatter(GridUse use, int axis, std::int64_t whole) { note(use, axis, whole, whole / size(axis), whole / size(axis)); }
  void all_reduce(GridUse use, int axis, std::int64_t elements) { note(use, axis, elements, elements, (elements + size(axis) - 1) / size(axis)); }
  void broadcast(GridUse use, int axis, std::int64_t elements) { note(use, axis, 0, elements, 0); }
  void reduce(GridUse use, int axis, std::int64_t elements) { note(use, axis, elements, elements, 0); }

  std::int64_t most_lent() const { return most_; }
  /// Buffers of the channels: conversions where the wire type is another than the model's, and two blocks of a ring that adds.
  std::int64_t channel_bytes(std::int64_t size_of_model, std::int64_t size_of_wire) const {
    std::int64_t bytes = 0;
    for (const auto& [line, m] : lines_) {
      const bool exact = line.first == GridUse::exact || line.first == GridUse::maximum;
      const std::int64_t size = exact ? size_of_model : size_of_wire;
      bytes += 2 * m.block * size;
      if (size != size_of_model) bytes += (m.in + m.out) * size;
    }
    return bytes;
  }

 private:
  struct Most {
    std::int64_t in = 0, out = 0, block = 0;
  };
  void note(GridUse use, int axis, std::int64_t in, std::int64_t out, std::int64_t block) {
    if (size(axis) == 1) return;
    Most& m = lines_[{use, axis}];
    m.in = std::max(m.in, in), m.out = std::max(m.out, out), m.block = std::max(m.block, block);
  }
  const GridShape shape_;
  std::int64_t now_ = 0, most_ = 0;
  std::map<std::pair<GridUse, int>, Most> lines_;
};
using Lent = Footprint::Lent;

/// One product: rows of its operands in a rank's hands, columns of the shards.
struct Product {
  std::int64_t rows, in, out;
  bool swapped = false, transposed = false;
};

void forward_3d(Footprint& f, const Product& p) {
  const int input = p.swapped ? output_axis : input_axis, output = p.swapped ? input_axis : output_axis;
  const Lent x(f, f.over(input, p.rows * p.in)), w(f, f.over(weight_axis, p.in * p.out)), partial(f, f.over(output, p.rows * p.out));
  f.all_gather(GridUse::activation, input, p.rows * p.in);
  f.all_gather(GridUse::weight, weight_axis, p.in * p.out);
  f.reduce_scatter(GridUse::activation, output, p.rows * p.out);
}

void backward_3d(Footprint& f, const Product& p) {
  const int input = p.swapped ? output_axis : input_axis, output = p.swapped ? input_axis : output_axis;
  const Lent dy(f, f.over(output, p.rows * p.out)), x(f, f.over(input, p.rows * p.in)), partial(f, f.over(input, p.rows * p.in));
  f.all_gather(GridUse::gradient, output, p.rows * p.out);
  f.all_gather(GridUse::weight, weight_axis, p.in * p.out);
  f.all_gather(GridUse::activation, input, p.rows * p.in);
  f.reduce_scatter(GridUse::gradient, input, p.rows * p.in);
  // The gathered weight, and when it is given back its gradient.
  const Lent w(f, f.over(weight_axis, p.in * p.out)), shard(f, f.over(weight_axis, p.in * p.out / f.size(weight_axis)));
  f.reduce_scatter(GridUse::weight_gradient, weight_axis, p.in * p.out);
}

// Of each operand that is broadcast, and of partial sums, two blocks at a time.
void forward_2d(Footprint& f, const Product& p) {
  const std::int64_t x = p.rows * p.in, w = p.in * p.out, y = p.rows * p.out;
  f.broadcast(GridUse::weight, down_column, w);
  if (p.transposed)
    f.reduce(GridUse::activation, along_row, y);
  else
    f.broadcast(GridUse::activation, along_row, x);
  const Lent panels(f, f.over(along_row, 2 * w + 2 * (p.transposed ? y : x)));
}

void backward_2d(Footprint& f, const Product& p) {
  const std::int64_t x = p.rows * p.in, w = p.in * p.out, y = p.rows * p.out;
  f.broadcast(GridUse::weight, down_column, w);
  f.reduce(GridUse::weight_gradient, down_column, w);
  f.all_reduce(GridUse::weight_gradient, over_depth, w);
  f.broadcast(p.transposed ? GridUse::gradient : GridUse::activation, along_row, p.transposed ? y : x);
  if (!p.transposed) f.reduce(GridUse::gradient, along_row, x);
  const Lent mine(f, w), panels(f, f.over(along_row, 2 * w + 2 * (p.transposed ? y : x)));
}

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
    const auto matrix = [&](std::int64_t in, std::int64_t out, bool swapped) { return grid_linear(shape_, "", in, out, rank_, swapped).weight.local().elements(); };
    const auto vector = [&](std::int64_t n, bool swapped) { return vector_layout(shape_, "", n, rank_, swapped).local().elements(); };
    p.matrices = layers_ * (matrix(h_, 3 * h_, false) + matrix(h_, h_, true) + matrix(h_, 4 * h_, false) + matrix(4 * h_, h_, true));
    p.vectors = layers_ * (vector(3 * h_, false) + vector(4 * h_, false) + 2 * vector(h_, true) + 4 * vector(h_, true));
    if (first_) p.matrices += c_.model.max_seq * h_ / parts_of(outer_.hidden);
    if (last_) p.vectors += 2 * vector(h_, true);
    if (first_ || last_) p.table = matrix(vocab_, h_, true);
    return p;
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

  /// Walks through one micro-batch.
  const Footprint& walk() {
    Footprint& f = footprint_;
    const std::int64_t n = shard();
    const auto product = [&](std::int64_t in, std::int64_t out, bool swapped, bool transposed, bool backward) {
      const int in_parts = parts_of(swapped ? inner_.hidden : outer_.hidden), out_parts = parts_of(swapped ? outer_.hidden : inner_.hidden);
      const Product p{box_ ? rows_ / shape_.sides[0] : own_rows(), in / in_parts, out / out_parts, swapped, transposed};
      if (box_)
        backward ? backward_3d(f, p) : forward_3d(f, p);
      else
        backward ? backward_2d(f, p) : forward_2d(f, p);
    };
    const int columns_of_rows = vector_axes(shape_, true).columns, columns_of_logits = vector_axes(shape_, false).columns;
    f.all_reduce(GridUse::exact, columns_of_rows, 2 * own_rows());
    product(h_, 3 * h_, false, false, false);
    product(h_, h_, true, false, false);
    product(h_, 4 * h_, false, false, false);
    {
      const Lent activated(f, 4 * n);
      product(4 * h_, h_, true, false, false);
    }
    if (first_) embedding();
    if (last_) {
      product(h_, vocab_, false, true, false);
      f.all_reduce(GridUse::maximum, columns_of_logits, inner_rows());
      f.all_reduce(GridUse::exact, columns_of_logits, 2 * inner_rows());
      const Lent statistics(f, 6 * inner_rows());
    }
    if (last_) {
      const Lent normed(f, n);
      product(h_, vocab_, false, true, true);
    }
    const Lent gradient(f, (c_.model.dropout > 0 ? 2 : 1) * n);
    {
      const Lent after_gelu(f, 4 * n);
      {
        const Lent activated(f, 4 * n);
        product(4 * h_, h_, true, false, true);
      }
      product(h_, 4 * h_, false, false, true);
    }
    const Lent qkv(f, 3 * n);
    {
      const Lent context(f, n);
      product(h_, h_, true, false, true);
    }
    product(h_, 3 * h_, false, false, true);
    return f;
  }

 private:
  void embedding() {
    Footprint& f = footprint_;
    const std::int64_t columns = h_ / parts_of(outer_.hidden), block = vocab_ / shape_.sides[1] * columns;
    const std::int64_t line = own_rows() * shape_.sides[1] * columns;
    if (box_) {
      f.all_gather(GridUse::weight, weight_axis, block);
      f.reduce_scatter(GridUse::weight_gradient, weight_axis, block);
    } else {
      f.all_reduce(GridUse::weight_gradient, over_depth, block);
    }
    f.reduce_scatter(GridUse::look_up, down_column, line);
    f.all_gather(GridUse::look_up, down_column, line);
    const Lent rows(f, f.over(down_column, line)), sums(f, block), shard(f, box_ ? f.over(weight_axis, block / shape_.sides[0]) : 0),
        positions(f, std::min(c_.seq, c_.model.max_seq) * columns);
    for (const int axis : {down_column, box_ ? weight_axis : over_depth}) f.all_reduce(GridUse::exact, axis, std::min(c_.seq, c_.model.max_seq) * columns);
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
  const std::int64_t size = c.dtype == DType::f64 ? 8 : 4, wire = c.dtype == DType::f64 ? 8 : static_cast<std::int64_t>(size_of(c.wire));
  GridModelSizes sizes(c, at);
  const GridModelSizes::Parameters p = sizes.parameters();
  MemoryEstimate m;
  m.weights = m.gradients = p.all() * size;
  const bool sharded = c.shard_optimizer && c.mesh.dp > 1;
  const std::int64_t split = sharded ? p.matrices + (c.mesh.pp == 1 ? p.table : 0) : 0;  // moments, master weights, reduced gradient of a share
  m.optimizer = (2 * (p.all() - split) + 4 * split / c.mesh.dp) * size;

  const std::int64_t chunk_layers = c.model.layers / c.mesh.pp / c.virtual_stages;
  const std::int64_t per_micro = sizes.shard() + chunk_layers * (c.recompute ? sizes.shard() : sizes.layer()) + sizes.head();
  m.activations = (live * per_micro + (c.recompute ? sizes.layer() : 0)) * size;

  const Footprint& f = sizes.walk();
  m.workspace = (sizes.kept_by_layers() + f.most_lent() + sizes.shard() * (c.mesh.pp > 1 ? 2 : 1)) * size + f.channel_bytes(size, wire);
  if (c.mesh.dp > 1) {  // packed buckets, and the wire buffers of the largest message in flight
    const auto bucket = static_cast<std::int64_t>(c.bucket_mib * (1 << 20)) / size;
    const std::int64_t square = c.model.hidden * c.model.hidden / c.mesh.tp;
    m.workspace += ((square < bucket && !sharded ? p.matrices : 0) + p.vectors) * size;
    const std::int64_t largest = std::max(std::min(bucket, p.all()), 4 * square);
    if (wire != size) m.workspace += 2 * largest * wire;
  }
  if (wire != size && c.mesh.pp > 1) m.workspace += 4 * sizes.shard() * wire;
  return m;
}

}  // namespace thinwire
