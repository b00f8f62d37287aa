// The samples of a micro-batch, as a dataset hands them to a stage.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace thinwire {

/// Numbers of a batch under one name: one per position [batch, seq] or, without `per_token`, one per sample [batch].
struct Field {
  std::variant<std::vector<std::int32_t>, std::vector<float>> values;
  bool per_token = true;
};

struct Batch {
  Batch() = default;
  Batch(std::int64_t samples, std::int64_t tokens, std::int64_t first = 0) : batch(samples), seq(tokens), first_sample(first) {}

  std::int64_t batch = 0, seq = 0;
  std::int64_t first_sample = 0;         ///< number of the first within the step's global batch: what dropout and messages are keyed by
  std::map<std::string, Field> fields;   ///< "tokens" and "targets" of text; what a model reads, its datasets deliver
  std::vector<std::int32_t> lengths;     ///< [batch] positions that count, the others are padding; empty: all
  std::vector<std::int64_t> sample_ids;  ///< [batch] which samples of the dataset: equal ids, equal samples
  /// What the batch counts for in the loss: its labelled positions (or samples); and the sum of it over the step's global batch, all replicas and
  /// micro-batches, known in advance. The step's loss is the sum over micro-batches of weight / global_weight times their own mean.
  double weight = 0, global_weight = 0;
  std::int64_t global_samples = 0;  ///< of the step's global batch: what a second loss divides by whose labels are one per sample

  /// The numbers of a field, which is made when it is missing. UsageError where they are of the other type.
  std::vector<std::int32_t>& ints(const std::string& name);
  /// UsageError naming the fields that there are.
  const std::vector<std::int32_t>& ints(const std::string& name) const;
  const std::vector<float>& floats(const std::string& name) const;
};

/// Positions [first, first + count) of every sample, for a pipeline that cuts sequences. Fields with one number per sample stay whole. The weight
/// is the slice's share of the positions. UsageError where the batch has padding, or weighs other than its positions: nobody knows then what a
/// slice of it weighs.
Batch token_slice(const Batch& batch, std::int64_t first, std::int64_t count);

}  // namespace thinwire
