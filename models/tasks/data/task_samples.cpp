#include "models/tasks/data/task_samples.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace thinwire {
namespace {

constexpr std::int64_t shortest = 8;  // of the marks and a piece or two of each text

}  // namespace

TaskSamples::TaskSamples(std::shared_ptr<const TaskReading> reading, std::vector<Example> examples, std::optional<EpochOrder> order)
    : reading_(std::move(reading)), examples_(std::move(examples)), order_(std::move(order)) {}

std::int64_t TaskSamples::row_of(std::uint64_t step, std::int64_t place) const {
  return order_ ? order_->at(step, place) : static_cast<std::int64_t>(step) * reading_->global_batch + place;
}

text::Sequence TaskSamples::sequence(std::int64_t row, std::int64_t longest) const {
  const text::WordPiece& pieces = reading_->wordpiece;
  const auto most = static_cast<std::size_t>(longest);
  if (row >= samples()) return text::sequence_of(pieces.vocabulary(), {}, most);
  const Example& example = examples_[static_cast<std::size_t>(row)];
  auto first = pieces.encode(example.first);
  return reading_->pairs ? text::sequence_of(pieces.vocabulary(), std::move(first), pieces.encode(example.second), most)
                         : text::sequence_of(pieces.vocabulary(), std::move(first), most);
}

Batch TaskSamples::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const {
  if (seq < shortest) throw UsageError("Sequences of " + std::to_string(seq) + " tokens have no room for a pair of texts and what stands around them; give --seq 8 or more.");
  Batch out(count, seq, first_sample);
  std::vector<std::int32_t>&tokens = out.ints("tokens"), &types = out.ints("types");
  Field& labels = out.fields["labels"];
  labels.per_token = false;
  std::vector<std::int32_t> classes;
  std::vector<float> scores;
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t row = row_of(step, first_sample + b);
    const text::Sequence s = sequence(row, seq);
    const auto end = static_cast<std::size_t>((b + 1) * seq);
    tokens.insert(tokens.end(), s.ids.begin(), s.ids.end());
    types.insert(types.end(), s.segments.begin(), s.segments.end());
    tokens.resize(end, reading_->wordpiece.vocabulary().pad());
    types.resize(end, 0);
    out.lengths.push_back(static_cast<std::int32_t>(s.ids.size()));
    out.sample_ids.push_back(row);
    const bool labelled = row < samples();
    if (reading_->scores)
      scores.push_back(labelled ? static_cast<float>(examples_[static_cast<std::size_t>(row)].label) : std::numeric_limits<float>::quiet_NaN());
    else
      classes.push_back(labelled ? static_cast<std::int32_t>(examples_[static_cast<std::size_t>(row)].label) : -1);
    out.weight += labelled;
  }
  if (reading_->scores)
    labels.values = std::move(scores);
  else
    labels.values = std::move(classes);
  return out;
}

double TaskSamples::weight(std::uint64_t step, std::int64_t count, std::int64_t) const {
  if (order_) return static_cast<double>(count);
  return static_cast<double>(std::clamp<std::int64_t>(samples() - static_cast<std::int64_t>(step) * reading_->global_batch, 0, count));
}

}  // namespace thinwire
