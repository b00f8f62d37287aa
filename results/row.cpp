#include "results/row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace thinwire::results {

namespace {
constexpr std::array<std::string_view, 6> status_names = {"OK",      "WRONG",      "FAILED",
                                                          "TIMEOUT", "MISTRUSTED", "SKIPPED"};
}

std::string_view name_of(Status status) {
  return status_names[static_cast<std::size_t>(status)];
}

Status parse_status(std::string_view name) {
  const auto found = std::find(status_names.begin(), status_names.end(), name);
  if (found == status_names.end())
    throw CorruptData("`" + std::string(name) +
                      "` is no status: OK, WRONG, FAILED, TIMEOUT, MISTRUSTED and SKIPPED are");
  return static_cast<Status>(found - status_names.begin());
}

std::span<const ColumnOf<CellRow>> cell_columns() {
  using R = CellRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "SHA-256 (hex) of program, ranks, link and canonical parameters"},
      {"program", &R::program, "the bench that measured it"},
      {"traffic", &R::traffic, "traffic class; `codec`: a codec alone, no link; `kernel`: a kernel of the trainer alone; `training`: a step of another trainer"},
      {"operation", &R::operation, "all_reduce, reduce_scatter, all_gather, send_recv, encode_decode, ..."},
      {"method", &R::method, "the study's short name (A1, T3, none, ...) or the codec's name"},
      {"codec", &R::codec, "canonical codec expression"},
      {"form", &R::form, "fair or released"},
      {"protocol", &R::protocol, "dense, rounds, gather, two_shot, point_to_point"},
      {"dtype", &R::dtype, "wire type of the dense baseline: f16, bf16, f32"},
      {"tensor", &R::tensor, "captured tensor or generator that was measured"},
      {"tensor_class", &R::tensor_class, "a codec alone on a captured tensor: its traffic class, else empty", true},
      {"source", &R::source, "captured, generated, input"},
      {"link", &R::link, "shm, netns:100mbit, ..."},
      {"link_gbps", &R::link_gbps, "measured rate, Gbit/s per rank and direction (NaN: not a rated link)"},
      {"compute", &R::compute, "real or timed; on devices the device's name; modelled: derived from measured parts"},
      {"oversubscription", &R::oversubscription, "ranks per core; on devices ranks per device"},
      {"ranks", &R::ranks, "number of ranks"},
      {"tp", &R::tp, "tensor-parallel ranks"},
      {"pp", &R::pp, "pipeline stages"},
      {"dp", &R::dp, "data-parallel replicas"},
      {"layers", &R::layers, "Transformer layers of the model, 0 where there is none"},
      {"batch", &R::batch, "sequences per micro-batch"},
      {"seq", &R::seq, "tokens per sequence"},
      {"hidden", &R::hidden, "hidden size; columns of the tensor where there is no model"},
      {"seed", &R::seed, "seed of the random numbers"},
      {"corpus", &R::corpus, "SHA-256 of the text behind a captured tensor, else empty"},
      {"dense_bytes", &R::dense_bytes, "per operation: the tensor in its wire type"},
      {"payload_bytes", &R::payload_bytes, "per operation: handed over by a rank"},
      {"link_bytes", &R::link_bytes, "per operation: sent, mean over ranks"},
      {"link_bytes_max", &R::link_bytes_max, "per operation: sent, largest over ranks"},
      {"received_bytes", &R::received_bytes, "per operation: received, mean over ranks"},
      {"baseline", &R::baseline, "library or ring: the faster uncompressed reference; sgemm: bare products"},
      {"baseline_link_bytes", &R::baseline_link_bytes, "sent by the baseline, mean over ranks"},
      {"ratio", &R::ratio, "baseline_link_bytes / link_bytes; of a codec alone dense_bytes / payload_bytes"},
      {"encode_us", &R::encode_us, "median over repetitions of the maximum over ranks, microseconds"},
      {"transfer_us", &R::transfer_us, "as encode_us"},
      {"decode_us", &R::decode_us, "as encode_us"},
      {"total_us", &R::total_us, "as encode_us"},
      {"baseline_us", &R::baseline_us, "as encode_us, of the baseline"},
      {"encode_cpu_us", &R::encode_cpu_us, "CPU time of one rank measured alone, microseconds"},
      {"decode_cpu_us", &R::decode_cpu_us, "CPU time of one rank measured alone, microseconds"},
      {"total_iqr_us", &R::total_iqr_us, "inter-quartile range, microseconds"},
      {"baseline_iqr_us", &R::baseline_iqr_us, "inter-quartile range, microseconds"},
      {"repetitions", &R::repetitions, "samples behind the medians"},
      {"algbw_gbps", &R::algbw_gbps, "as nccl-tests, on dense bytes, 1e9 bytes per second"},
      {"busbw_gbps", &R::busbw_gbps, "as nccl-tests, on dense bytes, 1e9 bytes per second"},
      {"speedup", &R::speedup, "baseline_us / total_us (timed compute or ranks <= cores, else NaN)"},
      {"break_even_gbps", &R::break_even_gbps, "pays on links slower than this, Gbit/s"},
      {"relative_l2", &R::relative_l2, "error of the result against the float64 sum"},
      {"vnmse", &R::vnmse, "vector-normalised mean squared error: squared L2 norm of the error over that of the float64 sum (relative_l2 squared)", true},
      {"cosine", &R::cosine, "cosine of result and float64 sum"},
      {"bias", &R::bias, "mean error over root mean square of the float64 sum"},
      {"slope_bias", &R::slope_bias, "slope of the result on the float64 sum, minus 1: about 0 for unbiased codecs, negative for those that shrink", true},
      {"zero_fraction", &R::zero_fraction, "share of exact zeros in the result"},
      {"encode_gbps", &R::encode_gbps, "codec benches: 1e9 bytes of input per second"},
      {"decode_gbps", &R::decode_gbps, "codec benches: 1e9 bytes of output per second"},
      {"memcpy_gbps", &R::memcpy_gbps, "codec benches: 1e9 bytes copied per second"},
      {"bound_fraction_encode", &R::bound_fraction_encode, "codec benches: fraction of the memory bound"},
      {"bound_fraction_decode", &R::bound_fraction_decode, "codec benches: fraction of the memory bound"},
      {"blas_fraction_encode", &R::blas_fraction_encode,
       "codec benches: time of the bare matrix products over encode_us (codecs made of products)"},
      {"blas_fraction_decode", &R::blas_fraction_decode,
       "codec benches: time of the bare matrix products over decode_us"},
      {"threads", &R::threads, "codec benches: OpenMP threads of the rank (0 elsewhere)"},
      {"device", &R::device, "name of the GPU that it ran on, empty on the host", true},
      {"gflops", &R::gflops, "kernels and training steps: floating-point operations of the mathematics over total_us, 1e9 per second", true},
      {"peak_gflops", &R::peak_gflops, "what gflops is held against: of a large product in the same run, 1e9 per second", true},
      {"bound_fraction", &R::bound_fraction, "kernels: time of the bound (memory or products) over total_us; exchanges in two steps: time that what crosses nodes needs of the link over total_us; training steps: model FLOP utilisation", true},
      {"target_fraction", &R::target_fraction, "fraction of the bound that the project aims at (NaN: none)", true},
      {"target_fraction_encode", &R::target_fraction_encode, "codecs on the host: fraction of the bound, memory or products, that encoding aims at (NaN: none)", true},
      {"target_fraction_decode", &R::target_fraction_decode, "codecs on the host: as target_fraction_encode, of decoding", true},
      {"status", &R::status, "OK, WRONG, FAILED, TIMEOUT, MISTRUSTED, SKIPPED"},
      {"reason", &R::reason, "why, where status is not OK"},
      {"launch", &R::launch, "key into /provenance"},
      {"repro", &R::repro, "the command line that repeats the row"},
  };
  return columns;
}

std::span<const ColumnOf<SampleRow>> sample_columns() {
  using R = SampleRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"traffic", &R::traffic, "as in /cells"},
      {"rank", &R::rank, "who measured"},
      {"repetition", &R::repetition, "counted from 0"},
      {"encode_us", &R::encode_us, "microseconds"},
      {"transfer_us", &R::transfer_us, "microseconds"},
      {"decode_us", &R::decode_us, "microseconds"},
      {"total_us", &R::total_us, "microseconds"},
      {"baseline", &R::baseline, "1: the uncompressed baseline, 0: the codec"},
  };
  return columns;
}

std::span<const ColumnOf<Provenance>> provenance_columns() {
  using R = Provenance;
  static const ColumnOf<R> columns[] = {
      {"launch", &R::launch, "id of the launch"},
      {"program", &R::program, "name of the program"},
      {"command", &R::command, "its command line"},
      {"commit", &R::commit, "source commit the binary was built from"},
      {"dirty_hash", &R::dirty_hash, "SHA-256 of uncommitted changes, empty when there were none"},
      {"binary_hash", &R::binary_hash,
       "SHA-256 of the running program file; of a row that the runner writes for a cell that failed, of the cell's program"},
      {"compiler", &R::compiler, "name and version"},
      {"flags", &R::flags, "build type and compiler flags"},
      {"mpi", &R::mpi, "library version as loaded"},
      {"blas", &R::blas, "OpenBLAS configuration as loaded"},
      {"hdf5", &R::hdf5, "library version as loaded"},
      {"cuda", &R::cuda, "runtime version as loaded, empty on the host"},
      {"nccl", &R::nccl, "version as loaded, empty on the host"},
      {"cpu", &R::cpu, "model name and number of usable cores"},
      {"gpu", &R::gpu, "device name, empty on the host"},
      {"hostname_hash", &R::hostname_hash, "first 16 digits of the SHA-256 of the host name"},
      {"rank_map", &R::rank_map, "which ranks shared a host"},
      {"seed", &R::seed, "seed of the launch"},
      {"config_hash", &R::config_hash, "SHA-256 of the configuration of the launch"},
      {"corpus", &R::corpus, "SHA-256 of the text behind captured tensors, or empty"},
      {"schema_version", &R::schema_version, "version of these tables"},
      {"environment", &R::environment, "recorded environment variables, NAME=value separated by line ends"},
      {"started", &R::started, "UTC, ISO 8601"},
      {"finished", &R::finished, "UTC, ISO 8601"},
      {"unigram_entropy", &R::unigram_entropy, "of a training run: entropy of the single bytes of its text's training part, nats (NaN: no text)", true},
      {"bigram_entropy", &R::bigram_entropy, "the same of a byte, given the one before it", true},
  };
  return columns;
}

std::span<const ColumnOf<LinkRow>> link_columns() {
  using R = LinkRow;
  static const ColumnOf<R> columns[] = {
      {"link", &R::link, "netns:100mbit, ..."},
      {"ranks", &R::ranks, "number of ranks"},
      {"bytes", &R::bytes, "message size"},
      {"direction", &R::direction, "one_way or both_ways"},
      {"nominal_gbps", &R::nominal_gbps, "what the name says, Gbit/s"},
      {"measured_gbps", &R::measured_gbps, "what was measured, Gbit/s"},
      {"trusted", &R::trusted, "0: off by more than 15 %"},
  };
  return columns;
}

std::span<const ColumnOf<SpectrumRow>> spectrum_columns() {
  using R = SpectrumRow;
  static const ColumnOf<R> columns[] = {
      {"tensor", &R::tensor, "captured matrix"},
      {"step", &R::step, "optimiser step of the capture"},
      {"kind", &R::kind, "weight_gradient, boundary_gradient, activation"},
      {"centred", &R::centred, "1: column means removed"},
      {"index", &R::index, "from 0, descending singular values"},
      {"singular_value", &R::singular_value, "normalised to the first"},
  };
  return columns;
}

std::span<const ColumnOf<MagnitudeRow>> magnitude_columns() {
  using R = MagnitudeRow;
  static const ColumnOf<R> columns[] = {
      {"kind", &R::kind, "parameters of this name, of all layers together: attention.qkv.weight, ..."},
      {"step", &R::step, "optimiser step of the capture"},
      {"exponent", &R::exponent, "e: gradients with 2^e <= abs(g) < 2^(e+1), as one micro-batch makes them; -150: zeros"},
      {"count", &R::count, "elements"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingRow>> training_columns() {
  using R = TrainingRow;
  static const ColumnOf<R> columns[] = {
      {"step", &R::step, "optimiser step"},
      {"loss", &R::loss, "cross-entropy, nats per token"},
      {"tokens_per_second", &R::tokens_per_second, "tokens per second"},
      {"learning_rate", &R::learning_rate, "of this step"},
      {"grad_norm", &R::grad_norm, "global L2 norm before clipping"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingCurveRow>> training_curve_columns() {
  using R = TrainingCurveRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "the study's name for what is compressed"},
      {"step", &R::step, "optimiser step, from 0"},
      {"loss", &R::loss, "training loss of the step's global batch, nats per token (NaN: timed compute)"},
      {"validation_loss", &R::validation_loss, "after this step, nats per token (NaN: not validated here)"},
      {"link_bytes", &R::link_bytes, "sent by all ranks from the first step to the end of this one, without validation"},
      {"grad_norm", &R::grad_norm, "global L2 norm before clipping"},
      {"learning_rate", &R::learning_rate, "of this step"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingMetricRow>> training_metric_columns() {
  using R = TrainingMetricRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"step", &R::step, "after this optimiser step, from 0"},
      {"metric", &R::metric, "what the model names: accuracy, ..."},
      {"value", &R::value, "mean over the validation data"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingTimeRow>> training_time_columns() {
  using R = TrainingTimeRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"link", &R::link, "shm, netns:100mbit, ..."},
      {"compute", &R::compute, "real, timed or the device's name; real means nothing where ranks outnumber cores, nor does a device that ranks share"},
      {"compute_scale", &R::compute_scale, "timed: computing and codecs took this many times what was measured alone"},
      {"step_ms", &R::step_ms, "median over steps of the maximum over ranks, milliseconds"},
      {"step_iqr_ms", &R::step_iqr_ms, "inter-quartile range of the same, milliseconds"},
      {"steps", &R::steps, "measured steps"},
      {"communication_share", &R::communication_share,
       "share of the step beyond computing on the busiest rank and the pipeline's bubble; codec work counts as communication"},
      {"compute_ms", &R::compute_ms, "model and optimizer, mean over ranks, median over steps"},
      {"encode_ms", &R::encode_ms, "as compute_ms"},
      {"transfer_ms", &R::transfer_ms, "as compute_ms: a transfer under way and nothing to compute"},
      {"decode_ms", &R::decode_ms, "as compute_ms"},
      {"wait_ms", &R::wait_ms, "as compute_ms: the rest of the step"},
      {"tokens_per_second", &R::tokens_per_second, "of all ranks, from step_ms", true},
      {"gflops", &R::gflops, "floating-point operations of the model's step over step_ms, of all ranks, 1e9 per second", true},
      {"peak_gflops", &R::peak_gflops, "what they could do, of all ranks, 1e9 per second", true},
      {"mfu", &R::mfu, "model FLOP utilisation: gflops / peak_gflops", true},
      {"peak", &R::peak, "where peak_gflops is from: stated, or measured as a large product of f32 or bf16", true},
      {"device", &R::device, "name of the GPU that it ran on, empty on the host", true},
  };
  return columns;
}

std::span<const ColumnOf<TrainingTrafficRow>> training_traffic_columns() {
  using R = TrainingTrafficRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"traffic", &R::traffic, "traffic class"},
      {"codec", &R::codec, "canonical codec expression; none: what of the class travelled dense"},
      {"operations", &R::operations, "per step, sum over ranks"},
      {"dense_bytes", &R::dense_bytes, "per step, sum over ranks: the tensors in their wire type"},
      {"payload_bytes", &R::payload_bytes, "per step, sum over ranks: handed over"},
      {"link_bytes", &R::link_bytes, "per step, sum over ranks: sent"},
      {"encode_us", &R::encode_us, "per step, mean over ranks, microseconds"},
      {"transfer_us", &R::transfer_us, "per step, mean over ranks, microseconds; overlaps with computing"},
      {"decode_us", &R::decode_us, "per step, mean over ranks, microseconds"},
      {"relative_error", &R::relative_error, "L2 norm of the error over that of the dense messages, over the compared ones (NaN: none)"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingStepRow>> training_step_columns() {
  using R = TrainingStepRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"traffic", &R::traffic, "as in /training_traffic"},
      {"codec", &R::codec, "as in /training_traffic"},
      {"step", &R::step, "optimiser step, from 0"},
      {"link_bytes", &R::link_bytes, "sent in this step, sum over ranks"},
      {"encode_us", &R::encode_us, "mean over ranks, microseconds"},
      {"transfer_us", &R::transfer_us, "mean over ranks, microseconds"},
      {"decode_us", &R::decode_us, "mean over ranks, microseconds"},
      {"relative_error", &R::relative_error, "L2 norm of the error over that of the dense messages of this step (NaN: not compared)"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingMemoryRow>> training_memory_columns() {
  using R = TrainingMemoryRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"rank", &R::rank, "whose memory this is"},
      {"stage", &R::stage, "its pipeline stage"},
      {"peak_bytes", &R::peak_bytes, "most bytes of tensors and buffers that it held at once, from the first step to the last"},
  };
  return columns;
}

std::span<const ColumnOf<TrainingPredictionRow>> training_prediction_columns() {
  using R = TrainingPredictionRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"link", &R::link, "as in /training_time"},
      {"part", &R::part, "step: the whole; else a kind of traffic"},
      {"predicted_ms", &R::predicted_ms, "of the step; of a part how much shorter the step would be if it cost nothing, milliseconds"},
  };
  return columns;
}

std::span<const ColumnOf<TimelineRow>> timeline_columns() {
  using R = TimelineRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"plan", &R::plan, "as in /training_curve"},
      {"link", &R::link, "shm, netns:100mbit, ..."},
      {"rank", &R::rank, "whose time this is"},
      {"category", &R::category, "compute, encode, transfer, decode, wait"},
      {"name", &R::name, "what was done"},
      {"micro", &R::micro, "micro-batch, -1 where there is none"},
      {"start_us", &R::start_us, "microseconds since the first rank began the step"},
      {"end_us", &R::end_us, "as start_us"},
  };
  return columns;
}

std::span<const ColumnOf<AttemptRow>> attempt_columns() {
  using R = AttemptRow;
  static const ColumnOf<R> columns[] = {
      {"cell_id", &R::cell_id, "as in /cells"},
      {"attempt", &R::attempt, "from 1; a DISTURBED cell of a claim is repeated"},
      {"disturbance_cores", &R::disturbance_cores, "(others_cpu_s - carrying_cpu_s + steal_s) / wall_s of the machine where that is largest (NaN: not measured); where others' time is not known, (machine_cpu_s - own_cpu_s - carrying_cpu_s + steal_s) / wall_s"},
      {"others_cpu_s", &R::others_cpu_s, "CPU time of all processes but the job's ranks, to the tick of 10 ms each; NaN where not all are to be seen, and in files from before it was measured", true},
      {"machine_cpu_s", &R::machine_cpu_s, "user, nice and system time of the whole machine, as the kernel's tick samples them"},
      {"own_cpu_s", &R::own_cpu_s, "CPU time of the job's ranks on it"},
      {"carrying_cpu_s", &R::carrying_cpu_s, "CPU time of kernel threads that carry the job's traffic; 0 where no kernel carries it, NaN where they are not to be seen"},
      {"steal_s", &R::steal_s, "time that the hypervisor gave to others"},
      {"interrupt_cpu_s", &R::interrupt_cpu_s, "time of interrupts and their bottom halves, which machine_cpu_s does not hold"},
      {"wall_s", &R::wall_s, "from the cell's start to its end"},
      {"used", &R::used, "1: the cell's rows are this attempt's; the others lie in OUT/attempts"},
      {"launch", &R::launch, "that measured it"},
      {"started", &R::started, "UTC, ISO 8601"},
  };
  return columns;
}

std::string to_json(const CellRow& row) {
  nlohmann::ordered_json json;
  for (const auto& column : cell_columns())
    std::visit([&](auto member) { json[column.name] = row.*member; }, column.member);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // NaN becomes null
}

CellRow cell_row_from_json(std::string_view text, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw CorruptData(where + ": a row is not a JSON object");
  CellRow row;
  std::vector<std::string> names;
  for (const auto& column : cell_columns()) names.emplace_back(column.name);
  for (const auto& [name, value] : json.items()) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw CorruptData(where + ": no column is called `" + name + "`; the nearest is `" +
                        nearest_name(name, names.data(), names.data() + names.size()) + "`");
    const auto& column = cell_columns()[static_cast<std::size_t>(found - names.begin())];
    std::visit(
        [&]<typename T>(T CellRow::*member) {
          if constexpr (std::is_same_v<T, double>) {
            if (value.is_null())
              row.*member = not_measured;
            else if (value.is_number())
              row.*member = value.template get<double>();
            else
              throw CorruptData(where + ": column `" + name + "` needs a number");
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            if (!value.is_number_integer())
              throw CorruptData(where + ": column `" + name + "` needs a whole number");
            row.*member = value.template get<std::int64_t>();
          } else {
            if (!value.is_string()) throw CorruptData(where + ": column `" + name + "` needs text");
            row.*member = value.template get<std::string>();
          }
        },
        column.member);
  }
  return row;
}

}  // namespace thinwire::results
