// Cells whose bytes are counted: a sum of gradients by itself, and a short training. Their times are nobody's evidence.
#pragma once

#include <map>
#include <string>

#include "experiments/claims/cells.h"

namespace thinwire::claims::gradient_compression {

/// bench_gradient: `rows` x 1024 random numbers on each rank, summed once. The record's baseline is the dense sum.
CellRequest reduction_request(int ranks, std::int64_t rows, const std::string& codec, const std::map<std::string, std::string>& settings = {});
/// train_gpt on so many data-parallel ranks, one sequence per rank and step.
CellRequest training_request(int ranks, int steps, const std::map<std::string, std::string>& settings);

/// Bytes that all ranks of a training sent as `traffic` ("dp_gradient", "param_all_gather.across"), all steps or one, coded or dense.
enum class Share { all, coded, dense };
std::int64_t sent(const results::CellRecord& record, const std::string& traffic, Share share = Share::all, std::int64_t step = -1);
/// The most that a rank held.
std::int64_t peak(const results::CellRecord& record);

}  // namespace thinwire::claims::gradient_compression
