#include "core/renamed.h"

namespace thinwire {

std::span<const RenamedWord> renamed_words() {
  static constexpr RenamedWord words[] = {
      {"wire", "comm-dtype"},
      {"parallel.wire", "parallel.comm_dtype"},
      {"bucket-mib", "bucket-cap-mb"},
      {"parallel.bucket_mib", "parallel.bucket_cap_mb"},
      {"floor", "min-lr"},
      {"train.floor", "train.min_lr"},
      {"shard-optimizer", "zero-stage"},
      {"parallel.shard_optimizer", "parallel.zero_stage"},
      // Sharded data parallelism first; where a program knows only grids, their classes.
      {"weight_gather", "param_all_gather"},
      {"gradient_scatter", "grad_reduce_scatter"},
      {"weight_gather", "tp_weight"},
      {"gradient_scatter", "tp_weight_gradient"},
      {"compress.weight_gather", "compress.param_all_gather"},
      {"compress.gradient_scatter", "compress.grad_reduce_scatter"},
      {"compress.weight_gather", "compress.tp_weight"},
      {"compress.gradient_scatter", "compress.tp_weight_gradient"},
  };
  return words;
}

std::string_view renamed_to(std::string_view name) {
  for (const RenamedWord& word : renamed_words())
    if (word.old_name == name) return word.new_name;
  return {};
}

}  // namespace thinwire
