// From the step records of all ranks of a training run to the rows of its record.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/training/parallel_trainer.h"
#include "results/row.h"

namespace thinwire::bench {

/// What a run left on rank 0.
struct TrainRun {
  TrainConfig config;
  std::string plan, link, corpus;  ///< corpus: hash of the text
  bool predicts_tokens = true;  ///< losses are nats per token, else means over samples
  bool adds_losses = false;     ///< others are added to those: no perplexity (adds_to_token_loss)
  std::string device;           ///< its name; empty: the host
  double oversubscription = 1;  ///< ranks per core, or per device
  std::vector<std::vector<StepRecord>> ranks;  ///< by rank; equally many steps each
  std::vector<std::int64_t> peak_bytes;        ///< by rank: most that tensors and buffers of the run held at once
  double peak_gflops = results::not_measured;  ///< of the hardware of all ranks (bench/training/product_peak.h), where asked for
  std::string peak = {};                       ///< where that is from
  std::map<std::int64_t, double> validation;   ///< loss after the step of this number
  std::map<std::int64_t, std::vector<Evaluation::Metric>> metrics = {};  ///< beside it
};

/// Step records as text and back, to bring them to rank 0. CorruptData when they are damaged.
std::string to_text(const std::vector<StepRecord>& steps);
std::vector<StepRecord> steps_from_text(const std::string& text);

/// Where a rank's step went; the parts add up to the whole. Microseconds.
struct StepSplit {
  double compute = 0, encode = 0, transfer = 0, decode = 0, wait = 0;
};
StepSplit split_of(const StepRecord& step);

/// Share of a step that is neither computing on the busiest rank nor the bubble of the pipeline: 1 - compute
/// (1 + (P - 1) / (v M)) / step, at least 0. P stages, v chunks per rank, M micro-batches; both times in the
/// same unit.
double communication_share(const TrainConfig& config, double busiest_compute, double step);

/// Loss curve, step time, traffic per class (no timeline). cell_id stays empty.
results::TrainingTables training_tables(const TrainRun& run);
/// One row of /samples per measured step of a timed run: traffic "step", total_us the maximum over ranks. cell_id stays empty.
std::vector<results::SampleRow> step_samples(const TrainRun& run);
/// One row of /cells per traffic class and codec: operation train_step, bytes and times of a step.
std::vector<results::CellRow> training_rows(const TrainRun& run);
/// Sum over ranks and steps of what was sent.
std::int64_t link_bytes_of(const TrainRun& run);

}  // namespace thinwire::bench
