// What a BERT is beyond the sizes that every model has: the options behind `--model bert:`.
#pragma once

#include <string>

#include "models/layers/block.h"
#include "models/stage/model_config.h"

namespace thinwire {

enum class BertTask {
  masked,          ///< masked language model
  pretraining,     ///< and, from the first position, whether two segments stand in their order (ALBERT) or belong together (BERT)
  classification,  ///< of sequences, from the first position
  regression,      ///< likewise, a number
};

struct BertConfig : ModelConfig {
  BertTask task = BertTask::masked;
  bool post_norm = true;   ///< as published; else as Megatron-LM's: no norm behind the embedding, one in front of the heads
  bool exact_gelu = true;
  std::int64_t types = 2;  ///< rows of the table of token types (segments); 0: no such table
  std::int64_t classes = 2;
  double epsilon = 1e-12;

  bool masks() const { return task == BertTask::masked || task == BertTask::pretraining; }
  bool reads_sequences() const { return task != BertTask::masked; }
  /// Numbers that the head on the first position gives.
  std::int64_t outputs() const { return task == BertTask::pretraining ? 2 : task == BertTask::regression ? 1 : classes; }
  BlockConfig block() const;
};

/// `options`: key=value,... as behind the model's name. UsageError naming the key.
BertConfig bert_config(const ModelConfig& sizes, const std::string& options);

}  // namespace thinwire
