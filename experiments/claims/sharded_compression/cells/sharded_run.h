// Sharded training as cells: a small GPT of which bytes, memory and equality are looked at, never quality.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "models/training/config/train_config.h"

namespace thinwire::claims::sharded_compression {

using Settings = std::map<std::string, std::string>;

/// train_gpt on so many ranks, all of them replicas unless `settings` split them otherwise: 4 layers of hidden size 32, sequences of 16 bytes, one per
/// micro-batch and two micro-batches per step; f32, on the wire too. `settings` overrule that.
CellRequest training(int ranks, const Settings& settings);
/// What the program makes of it.
TrainConfig config_of(const CellRequest& request);

/// Elements of the matrices, which alone are split by rows: the four of a layer, the positions, the token table (which is the head, too).
struct MatrixElements {
  std::int64_t layer = 0, layers = 0, positions = 0, table = 0;
  std::int64_t all() const { return layers + positions + table; }
};
MatrixElements matrices_of(const TrainConfig& config);
/// Of the vectors: biases and layernorms.
std::int64_t vector_elements(const TrainConfig& config);

/// Bytes that all ranks together sent in this step for a class ("grad_reduce_scatter.inside"), under any codec; 0 where the record has none.
std::int64_t sent(const results::CellRecord& record, const std::string& traffic, std::int64_t step);

/// Largest relative difference of losses, gradient norms and validation losses of any step; infinite where the two do not have the same steps. 0: equal bits.
double distance(const results::CellRecord& a, const results::CellRecord& b);

}  // namespace thinwire::claims::sharded_compression
