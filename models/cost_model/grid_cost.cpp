#include "models/cost_model/grid_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire {
namespace {

struct Sides {
  double x, y, z;  // 3-D: weight, input, output; 2-D and 2.5-D: column, row, depth
  double ranks;
};
Sides sides_of(const GridShape& s) {
  return {static_cast<double>(s.sides[0]), static_cast<double>(s.sides[1]), static_cast<double>(s.sides[2]), static_cast<double>(s.ranks())};
}

PassCost received(double elements, double messages) { return {elements, elements, messages, 0}; }
/// Over a line of n, of a matrix of `elements`, 1/n of which every member has (or gets).
PassCost gather(double n, double elements) { return received((n - 1) / n * elements, n - 1); }
/// Ring: reduce-scatter and all-gather.
PassCost all_reduce(double n, double elements) { return received(2 * (n - 1) / n * elements, 2 * (n - 1)); }

/// All q broadcasts (or reductions) of a matrix of which a rank's line holds `of_line` elements. Messages: of a fine chain, one per
/// block and the way of the first; of whole blocks, the way of each.
PassCost summa(double q, double of_line, BroadcastForm form) {
  if (q == 1) return {};
  PassCost cost = received((q - 1) / q * of_line, 2 * (q - 1));
  if (form == BroadcastForm::tree) cost.time_elements = std::log2(q) * of_line, cost.messages = q * std::ceil(std::log2(q));
  if (form == BroadcastForm::chain) cost.time_elements = (q - 1) * of_line, cost.messages = q * (q - 1);
  if (form == BroadcastForm::chain_ahead) cost.time_elements = std::min(q, 3.0) * (q - 1) / q * of_line, cost.messages = std::min(q, 3.0) * (q - 1);
  return cost;
}

GridCost with_flops(GridCost cost, double forward) {
  cost.forward.flops += forward, cost.backward.flops += 2 * forward;
  return cost;
}

/// A product in 3-D: `in` and `out` are the sides along which X is gathered and Y scattered.
GridCost product_3d(double x, double in, double out, double sx, double sw, double sy, GatherPolicy policy) {
  const PassCost X = gather(in, sx / (x * out)), W = gather(x, sw / (in * out)), Y = gather(out, sy / (x * in));
  GridCost cost{X + W + Y, X + W + Y};
  if (policy != GatherPolicy::keep) cost.backward += X + W;
  if (policy == GatherPolicy::again_literally) cost.backward += Y;
  return cost;
}

/// A product on a square, each depth layer with its own rows. `moved` is what travels beside the weight in the forward pass: X, or the
/// sums of Y under a transposed weight.
GridCost product_2d(const Sides& s, double moved, double sw, BroadcastForm form) {
  const double q = s.x, d = s.z;
  const PassCost pass = summa(q, moved / (q * d), form) + summa(q, sw / q, form);
  // Backward AB^T moves the weight and the sums of dX, A^T B moves X and the sums of dW: what the forward pass moves, twice.
  return {pass, 2.0 * pass + all_reduce(d, sw / (q * q))};
}

}  // namespace

std::string name_of(BroadcastForm form) {
  switch (form) {
    case BroadcastForm::pipelined: return "pipelined";
    case BroadcastForm::tree: return "tree";
    case BroadcastForm::chain: return "chain";
    case BroadcastForm::chain_ahead: return "chain, posted ahead";
  }
  return {};
}

PassCost& PassCost::operator+=(const PassCost& o) {
  elements += o.elements, time_elements += o.time_elements, messages += o.messages, flops += o.flops;
  return *this;
}
PassCost operator+(PassCost a, const PassCost& b) { return a += b; }
PassCost operator*(double factor, PassCost c) { return {factor * c.elements, factor * c.time_elements, factor * c.messages, factor * c.flops}; }
GridCost& GridCost::operator+=(const GridCost& o) {
  forward += o.forward, backward += o.backward;
  return *this;
}

GridCost linear_cost(const GridShape& shape, double rows, double in, double out, bool second, const GridCostOptions& options) {
  const Sides s = sides_of(shape);
  const double sx = rows * in, sw = in * out, sy = rows * out;
  GridCost cost;
  switch (shape.kind) {
    case GridKind::one_d:
      if (second)
        cost.forward = all_reduce(s.ranks, sy);
      else
        cost.backward = all_reduce(s.ranks, sx);
      break;
    case GridKind::two_d:
    case GridKind::two_and_half_d: cost = product_2d(s, sx, sw, options.broadcast); break;
    case GridKind::three_d: cost = second ? product_3d(s.x, s.z, s.y, sx, sw, sy, options.gather) : product_3d(s.x, s.y, s.z, sx, sw, sy, options.gather); break;
  }
  return with_flops(cost, 2 * rows * in * out / s.ranks);
}

GridCost head_cost(const GridShape& shape, double rows, double hidden, double vocabulary, const GridCostOptions& options) {
  if (shape.kind == GridKind::one_d || shape.kind == GridKind::three_d) return linear_cost(shape, rows, hidden, vocabulary, false, options);
  const Sides s = sides_of(shape);
  return with_flops(product_2d(s, rows * vocabulary, hidden * vocabulary, options.broadcast), 2 * rows * hidden * vocabulary / s.ranks);
}

GridCost vector_cost(const GridShape& shape, double extent, bool second) {
  const Sides s = sides_of(shape);
  GridCost cost;
  if (shape.kind == GridKind::one_d) return cost;  // whole, or split as the columns are
  const bool cube = shape.kind == GridKind::three_d;
  const double columns = cube ? (second ? s.z : s.y) : s.x, across = cube ? (second ? s.y : s.z) : s.y, sub = cube ? s.x : 1;
  const double piece = extent / (columns * sub);
  // To all of a line from its one holder: everybody else receives it once.
  PassCost spread{(across - 1) / across * piece, across > 1 ? piece : 0, across - 1, 0};
  cost.forward = cost.backward = spread + gather(sub, sub * piece);
  if (shape.kind == GridKind::two_and_half_d) {  // copies on every depth layer: the holders add up their gradients
    PassCost depth = all_reduce(s.z, piece);
    depth.elements /= across;
    cost.backward += depth;
  }
  return cost;
}

GridCost layernorm_cost(const GridShape& shape, double rows, double hidden) {
  const Sides s = sides_of(shape);
  GridCost cost;
  if (shape.kind == GridKind::one_d) return cost;
  const bool cube = shape.kind == GridKind::three_d;
  const PassCost sums = cube ? all_reduce(s.z, 2 * rows / (s.x * s.y)) : all_reduce(s.x, 2 * rows / (s.y * s.z));
  cost.forward = cost.backward = sums;
  for (int vector = 0; vector < 2; ++vector) cost += vector_cost(shape, hidden, true);
  return cost;
}

GridCost embedding_cost(const GridShape& shape, double rows, double hidden, double vocabulary) {
  const Sides s = sides_of(shape);
  const double sx = rows * hidden, table = vocabulary * hidden;
  switch (shape.kind) {
    case GridKind::one_d: return {all_reduce(s.ranks, sx), {}};
    case GridKind::two_d:
    case GridKind::two_and_half_d: return {gather(s.y, sx / (s.x * s.z)), gather(s.y, sx / (s.x * s.z)) + all_reduce(s.z, table / (s.x * s.y))};
    case GridKind::three_d: break;
  }
  const PassCost pass = gather(s.x, table / (s.y * s.z)) + gather(s.y, sx / (s.x * s.z));
  return {pass, pass};
}

GridCost loss_cost(const GridShape& shape, double rows) {
  const Sides s = sides_of(shape);
  const bool cube = shape.kind == GridKind::three_d, line = shape.kind == GridKind::one_d;
  const double n = line ? s.ranks : cube ? s.y : s.x, own = line ? rows : cube ? rows / (s.x * s.z) : rows / (s.y * s.z);
  return {all_reduce(n, own) + all_reduce(n, 2 * own), {}};
}

GridCost mlp_cost(const GridShape& shape, const LayerShape& l, const GridCostOptions& options) {
  GridCost cost = linear_cost(shape, l.rows(), l.hidden, 4 * l.hidden, false, options);
  cost += linear_cost(shape, l.rows(), 4 * l.hidden, l.hidden, true, options);
  if (options.vectors) cost += vector_cost(shape, 4 * l.hidden, false), cost += vector_cost(shape, l.hidden, true);
  return cost;
}

GridCost layer_cost(const GridShape& shape, const LayerShape& l, const GridCostOptions& options) {
  GridCost cost = mlp_cost(shape, l, options);
  cost += linear_cost(shape, l.rows(), l.hidden, 3 * l.hidden, false, options);
  cost += linear_cost(shape, l.rows(), l.hidden, l.hidden, true, options);
  if (options.vectors) {
    cost += vector_cost(shape, 3 * l.hidden, false), cost += vector_cost(shape, l.hidden, true);
    for (int norm = 0; norm < 2; ++norm) cost += layernorm_cost(shape, l.rows(), l.hidden);
  }
  return with_flops(cost, 4 * l.rows() * l.seq * l.hidden / shape.ranks());
}

double crossover_batch(const GridShape& shape, double seq, double hidden, const GridCostOptions& options, bool recompute) {
  const GridShape line{GridKind::one_d, {shape.ranks(), 1, 1}};
  const auto more = [&](double batch) {
    const LayerShape layer{batch, seq, hidden, 1};
    return layer_cost(shape, layer, options).step(recompute).time_elements - layer_cost(line, layer, options).step(recompute).time_elements;
  };
  const double at_zero = more(0), per_sequence = more(1) - at_zero;
  if (at_zero <= 0) return 0;
  return per_sequence < 0 ? at_zero / -per_sequence : std::numeric_limits<double>::infinity();
}

LayerMemory layer_memory(const GridShape& shape, const LayerShape& l, GatherPolicy gather_policy) {
  const Sides s = sides_of(shape);
  const double sx = l.rows() * l.hidden, h2 = l.hidden * l.hidden;
  LayerMemory m;
  m.scores = l.rows() * l.seq * l.heads / s.ranks;
  m.weights = 12 * h2 / (shape.kind == GridKind::two_and_half_d ? s.x * s.y : s.ranks);
  m.input = shape.kind == GridKind::one_d ? sx : sx / s.ranks;
  m.linear_inputs = shape.kind == GridKind::one_d ? 2 * sx + 5 * sx / s.ranks : 7 * sx / s.ranks;
  if (shape.kind != GridKind::three_d) return m;
  m.gathered_weight = 12 * h2 / (s.y * s.z);
  // First linears of a pair gather X over y ranks, second ones over z: h + h, and h + 4h, columns.
  if (gather_policy == GatherPolicy::keep) m.kept = 2 * sx / (s.x * s.z) + 5 * sx / (s.x * s.y) + m.gathered_weight;
  return m;
}

double seconds_of(const GridMachine& m, const PassCost& c) {
  return c.messages * m.latency_us * 1e-6 + c.time_elements * m.bytes_per_element / (m.gigabytes_per_second * 1e9) + c.flops / (m.tflops * 1e12);
}

GridShape grid_of(GridKind kind, int ranks) { return parse_grid(name_of(kind), ranks); }

}  // namespace thinwire
