// What a pass through a linear, an MLP or a Transformer layer costs one rank of a tensor-parallel grid: elements received, messages one
// after another, operations, memory; and the time that these make on a stated machine. Derivations: docs/tensor-parallel.md; the meters of
// real runs are held against the same formulas.
//
// Sizes are whole numbers of elements, but costs are doubles: they are means over ranks, and tables ask for them at batches that no grid
// divides. Nothing here checks divisibility (check_grid does). rows = batch x sequence, of the whole grid.
#pragma once

#include <cstdint>
#include <string>

#include "models/layout/grid_shape.h"
#include "models/parallel/tensor/tensor_grid.h"

namespace thinwire {

/// How long SUMMA's broadcasts (and reductions) of a matrix take that is spread over lines of q ranks, S elements over the grid:
/// cut fine along a chain, (q-1)/q^2 S, which is what the meters count; along a binary tree, log2(q)/q S (Optimus' analysis); in whole
/// blocks along a chain, one broadcast after the other, (q-1)/q S (the cost that Colossal-AI documents); the same chains with the next block
/// posted as soon as the one before has come to its owner, what our SUMMA does on an emulated link: three blocks are then under way, so q
/// of them take 3 (q-1) of a block's time instead of q (q-1) (walked rank by rank for q = 2, 3, 4, 8), min(q, 3) (q-1)/q^2 S.
enum class BroadcastForm { pipelined, tree, chain, chain_ahead };
std::string name_of(BroadcastForm form);

struct GridCostOptions {
  GatherPolicy gather = GatherPolicy::again;
  BroadcastForm broadcast = BroadcastForm::pipelined;
  bool vectors = false;  ///< MLP, layer: biases and layernorms, too (thousandths of the products' bytes, but messages)
};

/// Of one rank in one pass.
struct PassCost {
  double elements = 0;       ///< received, mean over ranks: what meters count
  double time_elements = 0;  ///< received one after the other by the rank that receives most; BroadcastForm decides how SUMMA's count
  double messages = 0;       ///< sent one after the other
  double flops = 0;

  PassCost& operator+=(const PassCost& other);
};
PassCost operator+(PassCost a, const PassCost& b);
PassCost operator*(double factor, PassCost cost);

struct GridCost {
  PassCost forward, backward;
  /// Forward and backward; with `recompute` forward once more, its messages included.
  PassCost step(bool recompute = false) const { return (recompute ? 2.0 : 1.0) * forward + backward; }
  GridCost& operator+=(const GridCost& other);
};

/// Y = X W without bias. `second`: the second linear of a pair (3-D: swapped; 1-D: row-parallel, its output is summed).
GridCost linear_cost(const GridShape& shape, double rows, double in, double out, bool second, const GridCostOptions& options = {});
/// The tied head X E^T, table of `vocabulary` rows; 2-D sums its output instead of spreading its input.
GridCost head_cost(const GridShape& shape, double rows, double hidden, double vocabulary, const GridCostOptions& options = {});
/// A vector that acts on the output of a linear (of this orientation): gathered, and its gradient scattered.
GridCost vector_cost(const GridShape& shape, double extent, bool second);
/// The sums of rows, forward and backward, and scale and shift.
GridCost layernorm_cost(const GridShape& shape, double rows, double hidden);
GridCost embedding_cost(const GridShape& shape, double rows, double hidden, double vocabulary);
/// Cross-entropy: the maximum, then the sums of exponentials and of target logits in one message.
GridCost loss_cost(const GridShape& shape, double rows);

struct LayerShape {
  double batch = 0, seq = 0, hidden = 0, heads = 0;
  double rows() const { return batch * seq; }
};
/// h -> 4h -> h.
GridCost mlp_cost(const GridShape& shape, const LayerShape& layer, const GridCostOptions& options = {});
/// A Transformer layer: QKV h -> 3h, projection, MLP; (24 b s h^2 + 4 b s^2 h) / p operations forward, twice that backward.
GridCost layer_cost(const GridShape& shape, const LayerShape& layer, const GridCostOptions& options = {});

/// Largest batch at which a step's bytes under `shape` are still not fewer than under 1-D with as many ranks (0: never more): weights
/// travel in a grid whatever the batch. Linear in the batch, so from two points. inf where the grid never sends fewer.
double crossover_batch(const GridShape& shape, double seq, double hidden, const GridCostOptions& options, bool recompute = false);

/// Elements that one rank holds of one layer.
struct LayerMemory {
  double weights = 0;          ///< as many gradients, twice as many numbers of Adam's state
  double input = 0;            ///< of the layer: all that recomputation keeps
  double linear_inputs = 0;    ///< of the four linears: shards; 1-D: two whole ones
  double kept = 0;             ///< gathered inputs and weights that GatherPolicy::keep adds
  double gathered_weight = 0;  ///< 3-D, transient: the four weights as they are gathered for a product
  double scores = 0;           ///< of attention, b heads s^2 / p
};
LayerMemory layer_memory(const GridShape& shape, const LayerShape& layer, GatherPolicy gather = GatherPolicy::again);

/// A machine in three numbers. Every rank has a link of its own.
struct GridMachine {
  double latency_us = 0;            ///< of a message
  double gigabytes_per_second = 0;  ///< of a rank's link
  double tflops = 0;                ///< 1e12 operations per second that a rank reaches
  double bytes_per_element = 4;
};
/// Seconds: messages x latency + bytes / rate + operations / speed. Nothing overlaps, so an upper bound for code that hides some.
double seconds_of(const GridMachine& machine, const PassCost& cost);

/// The square, box or cube of this many ranks: 1-D, 2-D, or 3-D. UsageError as parse_grid.
GridShape grid_of(GridKind kind, int ranks);

}  // namespace thinwire
