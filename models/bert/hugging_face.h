// BERT checkpoints of Hugging Face's transformers: a folder with config.json and model.safetensors. Names and shapes as in its modeling_bert.py
// (BertForPreTraining, BertForMaskedLM, BertForSequenceClassification); there a linear is y = x W^T with W [out, in], here y = x W, and q, k and v of a head
// stand side by side in one matrix. Post-layernorm, exact GELU, four times as wide inside: others are refused.
#pragma once

#include <string>
#include <vector>

#include "models/bert/bert.h"

namespace thinwire {

/// Values of the checkpoint for the parameters of a stage, whatever part of the model it is and however it is split; of a deferred matrix
/// (models/layout/parameter.h) its first values. Returns the parameters of the head that the checkpoint does not have, which stay as they are: a head that is to be
/// fine-tuned is new. UsageError naming both where the sizes differ, or where anything else is missing; CorruptData for a damaged file.
/// The model may have fewer positions than the checkpoint: the first are taken.
template <typename T>
std::vector<std::string> load_hugging_face(const std::string& folder, const BertConfig& config, Stage<T>& stage);

/// Sets vocabulary, hidden size, layers and heads to what config.json states. EnvironmentError where it cannot be read, CorruptData where one is missing.
void hugging_face_sizes(const std::string& folder, ModelConfig& sizes);

/// SHA-256 (hex) of config.json and model.safetensors. EnvironmentError where one cannot be read.
std::string hugging_face_content(const std::string& folder);

/// Writes config.json and model.safetensors (F32) of a whole model on one rank into an existing folder. UsageError for a form that transformers has not.
template <typename T>
void save_hugging_face(const std::string& folder, const BertConfig& config, Stage<T>& stage);

}  // namespace thinwire
