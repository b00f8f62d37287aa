// The rows of the result tables. This is the one place where columns are defined: HDF5, JSON and
// docs/results-schema.md follow it (a test compares the document).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/hdf5/table.h"

namespace thinwire::results {

/// Version of the tables' layout. Files of another version are refused, never guessed at.
inline constexpr std::int64_t schema_version = 2;

enum class Status { ok, wrong, failed, timeout, mistrusted, skipped };
/// "OK", "WRONG", "FAILED", "TIMEOUT", "MISTRUSTED", "SKIPPED".
std::string_view name_of(Status status);
/// Inverse; throws CorruptData naming the valid ones.
Status parse_status(std::string_view name);

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// How far a result is from its float64 reference `ref` (docs/measuring.md, "Errors"). bench/harness/error_metrics.cpp computes them.
struct ErrorColumns {
  double relative_l2 = not_measured, vnmse = not_measured, cosine = not_measured, bias = not_measured, slope_bias = not_measured, zero_fraction = not_measured;
};

/// One row of /cells: one cell and traffic class. What does not apply stays at its default: empty text, NaN,
/// 0 (1 for ranks, tp, pp, dp). Times are microseconds.
struct CellRow : ErrorColumns {
  std::string cell_id, program, traffic, operation, method, codec;
  std::string form = "fair";
  std::string protocol, dtype, tensor, tensor_class, source, link;
  double link_gbps = not_measured;
  std::string compute;
  double oversubscription = not_measured;
  std::int64_t ranks = 1, tp = 1, pp = 1, dp = 1, layers = 0, batch = 0, seq = 0, hidden = 0, seed = 0;
  std::string corpus;
  std::int64_t dense_bytes = 0, payload_bytes = 0, link_bytes = 0, link_bytes_max = 0, received_bytes = 0;
  std::string baseline;
  std::int64_t baseline_link_bytes = 0;
  double ratio = not_measured;
  double encode_us = not_measured, transfer_us = not_measured, decode_us = not_measured,
         total_us = not_measured, baseline_us = not_measured;
  double encode_cpu_us = not_measured, decode_cpu_us = not_measured;
  double total_iqr_us = not_measured, baseline_iqr_us = not_measured;
  std::int64_t repetitions = 0;
  double algbw_gbps = not_measured, busbw_gbps = not_measured;
  double speedup = not_measured, break_even_gbps = not_measured;
  double encode_gbps = not_measured, decode_gbps = not_measured, memcpy_gbps = not_measured;
  double bound_fraction_encode = not_measured, bound_fraction_decode = not_measured;
  double blas_fraction_encode = not_measured, blas_fraction_decode = not_measured;
  std::int64_t threads = 0;
  std::string device;
  double gflops = not_measured, peak_gflops = not_measured, bound_fraction = not_measured, target_fraction = not_measured;
  double target_fraction_encode = not_measured, target_fraction_decode = not_measured;
  std::string status = "OK";
  std::string reason;
  std::string launch;
  std::string repro;
};
std::span<const ColumnOf<CellRow>> cell_columns();

/// One row of /samples: one measurement of one rank. Repetitions count from 0.
struct SampleRow {
  std::string cell_id, traffic;
  std::int64_t rank = 0, repetition = 0;
  double encode_us = not_measured, transfer_us = not_measured, decode_us = not_measured,
         total_us = not_measured;
  std::int64_t baseline = 0;  ///< 1: the uncompressed baseline, 0: the codec
};
std::span<const ColumnOf<SampleRow>> sample_columns();

/// One row of /provenance: one launch. Filled by results/provenance.h.
struct Provenance {
  std::string launch, program, command, commit, dirty_hash, binary_hash, compiler, flags;
  std::string mpi, blas, hdf5, cuda, nccl, cpu, gpu, hostname_hash, rank_map;
  std::int64_t seed = 0;
  std::string config_hash, corpus;
  std::int64_t schema_version = results::schema_version;
  std::string environment, started, finished;
  double unigram_entropy = not_measured, bigram_entropy = not_measured;  ///< of the bytes of the text; nats
};
std::span<const ColumnOf<Provenance>> provenance_columns();

/// One row of /links: one calibration of a link with one message size.
struct LinkRow {
  std::string link;
  std::int64_t ranks = 0, bytes = 0;
  std::string direction;  ///< "one_way" or "both_ways"
  double nominal_gbps = not_measured, measured_gbps = not_measured;
  std::int64_t trusted = 1;  ///< 0: off by more than 15 %
};
std::span<const ColumnOf<LinkRow>> link_columns();

/// One row of /spectra: singular values of a captured matrix, normalised to the first.
struct SpectrumRow {
  std::string tensor;
  std::int64_t step = 0;
  std::string kind;  ///< "weight_gradient", "boundary_gradient", "activation"
  std::int64_t centred = 0, index = 0;
  double singular_value = not_measured;
};
std::span<const ColumnOf<SpectrumRow>> spectrum_columns();

/// One row of /magnitudes: how many elements of a captured step's gradients are of one power of two.
struct MagnitudeRow {
  std::string kind;  ///< what the layer holds: "attention.qkv.weight", of all layers together
  std::int64_t step = 0, exponent = 0, count = 0;
};
/// The exponent of zeros: one below that of the smallest float32.
inline constexpr std::int64_t exponent_of_zero = -150;
std::span<const ColumnOf<MagnitudeRow>> magnitude_columns();

/// One row of /training: one optimiser step.
struct TrainingRow {
  std::int64_t step = 0;
  double loss = not_measured, tokens_per_second = not_measured, learning_rate = not_measured,
         grad_norm = not_measured;
};
std::span<const ColumnOf<TrainingRow>> training_columns();

/// One row of /training_curve: one optimiser step of a parallel training run, under a compression plan.
struct TrainingCurveRow {
  std::string cell_id, plan;
  std::int64_t step = 0;  ///< from 0
  double loss = not_measured, validation_loss = not_measured;
  std::int64_t link_bytes = 0;
  double grad_norm = not_measured, learning_rate = not_measured;
};
std::span<const ColumnOf<TrainingCurveRow>> training_curve_columns();

/// One row of /training_metrics: what a validation measured beside the loss.
struct TrainingMetricRow {
  std::string cell_id, plan;
  std::int64_t step = 0;  ///< as in /training_curve
  std::string metric;
  double value = not_measured;
};
std::span<const ColumnOf<TrainingMetricRow>> training_metric_columns();

/// One row of /training_time: how long a step of a run took on a link, and where the time went.
struct TrainingTimeRow {
  std::string cell_id, plan, link, compute;
  double compute_scale = 1;
  double step_ms = not_measured, step_iqr_ms = not_measured;
  std::int64_t steps = 0;
  double communication_share = not_measured;
  double compute_ms = not_measured, encode_ms = not_measured, transfer_ms = not_measured, decode_ms = not_measured, wait_ms = not_measured;
  double tokens_per_second = not_measured, gflops = not_measured, peak_gflops = not_measured, mfu = not_measured;
  std::string peak = {}, device = {};
};
std::span<const ColumnOf<TrainingTimeRow>> training_time_columns();

/// One row of /training_traffic: what one traffic class of a run cost per step, its compressed and its dense share apart.
struct TrainingTrafficRow {
  std::string cell_id, plan, traffic, codec;
  std::int64_t operations = 0, dense_bytes = 0, payload_bytes = 0, link_bytes = 0;
  double encode_us = not_measured, transfer_us = not_measured, decode_us = not_measured;
  double relative_error = not_measured;
};
std::span<const ColumnOf<TrainingTrafficRow>> training_traffic_columns();

/// One row of /training_steps: what one traffic class of a run cost in one step.
struct TrainingStepRow {
  std::string cell_id, plan, traffic, codec;
  std::int64_t step = 0, link_bytes = 0;
  double encode_us = not_measured, transfer_us = not_measured, decode_us = not_measured;
  double relative_error = not_measured;
};
std::span<const ColumnOf<TrainingStepRow>> training_step_columns();

/// One row of /training_memory: what one rank of a run held.
struct TrainingMemoryRow {
  std::string cell_id, plan;
  std::int64_t rank = 0, stage = 0, peak_bytes = 0;
};
std::span<const ColumnOf<TrainingMemoryRow>> training_memory_columns();

/// One row of /training_prediction: what the step model makes of a timed run (docs/step-model.md).
struct TrainingPredictionRow {
  std::string cell_id, plan, link;
  std::string part;  ///< "step", or what is taken out: "gradient sums"
  double predicted_ms = not_measured;
};
std::span<const ColumnOf<TrainingPredictionRow>> training_prediction_columns();

/// One row of /timeline: what one rank did from start to end in one step of a run.
struct TimelineRow {
  std::string cell_id, plan, link;
  std::int64_t rank = 0;
  std::string category, name;
  std::int64_t micro = -1;  ///< micro-batch, -1: none
  double start_us = 0, end_us = 0;
};
std::span<const ColumnOf<TimelineRow>> timeline_columns();

/// One row of /attempts: one measurement of a cell, and how much of the machine's cores others took meanwhile (docs/measuring.md). Seconds are those of
/// the machine that was disturbed most, NaN where it does not tell them.
struct AttemptRow {
  std::string cell_id;
  std::int64_t attempt = 1;  ///< from 1
  double disturbance_cores = not_measured;
  double others_cpu_s = not_measured, machine_cpu_s = not_measured, own_cpu_s = not_measured, carrying_cpu_s = not_measured, steal_s = not_measured, interrupt_cpu_s = not_measured, wall_s = not_measured;
  std::int64_t used = 1;     ///< 1: the record's numbers are this attempt's
  std::string launch, started;
};
std::span<const ColumnOf<AttemptRow>> attempt_columns();

/// What a record may hold beside its rows: what a training run adds, and the attempts of any cell.
struct TrainingTables {
  std::vector<TrainingCurveRow> curve;
  std::vector<TrainingMetricRow> metrics;
  std::vector<TrainingTimeRow> time;
  std::vector<TrainingTrafficRow> traffic;
  std::vector<TrainingStepRow> steps;
  std::vector<TrainingMemoryRow> memory;
  std::vector<TrainingPredictionRow> prediction;
  std::vector<TimelineRow> timeline;
  std::vector<AttemptRow> attempts;
};
/// Calls visit(table name, vector, columns) for each of them: writing, reading and merging are one loop.
template <typename Tables, typename Visit>
void for_each_training_table(Tables& tables, Visit&& visit) {
  visit("training_curve", tables.curve, training_curve_columns());
  visit("training_metrics", tables.metrics, training_metric_columns());
  visit("training_time", tables.time, training_time_columns());
  visit("training_traffic", tables.traffic, training_traffic_columns());
  visit("training_steps", tables.steps, training_step_columns());
  visit("training_memory", tables.memory, training_memory_columns());
  visit("training_prediction", tables.prediction, training_prediction_columns());
  visit("timeline", tables.timeline, timeline_columns());
  visit("attempts", tables.attempts, attempt_columns());
}

/// One JSON object per row on one line; NaN becomes null. The inverse accepts missing keys (defaults) and
/// refuses unknown ones with CorruptData naming the nearest column.
std::string to_json(const CellRow& row);
CellRow cell_row_from_json(std::string_view json, const std::string& where);

}  // namespace thinwire::results
