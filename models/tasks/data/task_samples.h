// The examples of a task's file as batches for fine-tuning: one text or two as BERT reads them (models/data/text/sequence.h), padded to --seq.
// Ids are made when a batch is: texts are short, and a file of 400,000 rows is not waited for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/data/dataset.h"
#include "models/data/epoch_order.h"
#include "models/data/text/sequence.h"
#include "models/data/text/wordpiece.h"
#include "models/tasks/text_task.h"

namespace thinwire {

/// What the sets of a task share.
struct TaskReading {
  text::WordPiece wordpiece;
  bool pairs = false;            ///< two texts
  bool scores = false;           ///< labels are numbers
  std::int64_t global_batch = 1;
};

/// Fields "tokens", "types" [batch, seq] and "labels" [batch]: classes, or numbers (scores). A sample's id is its row. A batch weighs its labelled samples.
class TaskSamples final : public Dataset {
 public:
  /// With an order: epoch after epoch, all labelled. Without: row after row, once; behind the last come sequences without text, with the label -1 or NaN.
  TaskSamples(std::shared_ptr<const TaskReading> reading, std::vector<Example> examples, std::optional<EpochOrder> order = {});
  /// UsageError when seq has no room for what stands around a text.
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override;
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override;
  std::int64_t samples() const override { return static_cast<std::int64_t>(examples_.size()); }

 private:
  std::int64_t row_of(std::uint64_t step, std::int64_t place) const;
  text::Sequence sequence(std::int64_t row, std::int64_t longest) const;
  std::shared_ptr<const TaskReading> reading_;
  std::vector<Example> examples_;
  std::optional<EpochOrder> order_;
};

}  // namespace thinwire
