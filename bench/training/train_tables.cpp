#include "bench/training/train_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "bench/training/mfu.h"
#include "core/error.h"
#include "core/statistics.h"
#include "kernels/codec/registry.h"

namespace thinwire::bench {
namespace {

/// As docs/results-schema.md says: real, timed, or the device's name.
std::string compute_of(const TrainRun& run) {
  if (!run.device.empty()) return run.device;
  return run.config.compute == ComputeMode::real ? "real" : "timed";
}
bool emulated(const TrainRun& run) { return run.device.starts_with("emulated"); }

/// Everything of a step that tables sum or average, by member: writing, reading and adding are one list.
constexpr std::array time_members = {&OperationReport::encode_us,    &OperationReport::transfer_us,
                                     &OperationReport::decode_us,    &OperationReport::total_us,
                                     &OperationReport::untimed_us,   &OperationReport::encode_cpu_us,
                                     &OperationReport::decode_cpu_us};
constexpr std::array byte_members = {&OperationReport::dense_bytes, &OperationReport::payload_bytes,
                                     &OperationReport::link_bytes, &OperationReport::received_bytes};

struct TrafficKey {
  TrafficClass traffic;
  std::string codec;
  ChannelLevel level = ChannelLevel::whole;
  auto operator<=>(const TrafficKey&) const = default;
};

/// One class and codec: by step, by rank.
struct TrafficSeries {
  std::vector<std::vector<TrafficRecord>> steps;
};

void add(TrafficRecord& sum, const TrafficRecord& more) {
  sum.operations += more.operations;
  for (const auto member : time_members) sum.total.*member += more.total.*member;
  for (const auto member : byte_members) sum.total.*member += more.total.*member;
  sum.error_squared += more.error_squared;
  sum.reference_squared += more.reference_squared;
}

std::map<TrafficKey, TrafficSeries> series_of(const TrainRun& run) {
  std::map<TrafficKey, TrafficSeries> all;
  const std::size_t ranks = run.ranks.size(), steps = ranks == 0 ? 0 : run.ranks.front().size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    TW_ASSERT(run.ranks[rank].size() == steps, "ranks of one run took different numbers of steps");
    for (std::size_t step = 0; step < steps; ++step)
      for (const TrafficRecord& record : run.ranks[rank][step].traffic) {
        if (record.operations == 0) continue;
        TrafficSeries& series = all[{record.traffic, record.codec, record.level}];
        series.steps.resize(steps, std::vector<TrafficRecord>(ranks));
        add(series.steps[step][rank], record);
      }
  }
  return all;
}

TrafficRecord total_of(const TrafficKey& key, const TrafficSeries& series) {
  TrafficRecord total;
  for (const auto& ranks : series.steps)
    for (const TrafficRecord& record : ranks) add(total, record);
  // Both ends of a message report its dense size.
  if (key.traffic == TrafficClass::pp_forward || key.traffic == TrafficClass::pp_backward) total.total.dense_bytes /= 2;
  return total;
}

double relative_error(const TrafficRecord& total) {
  return total.reference_squared > 0 ? std::sqrt(total.error_squared / total.reference_squared)
                                     : results::not_measured;
}

/// Median over steps of the maximum over ranks.
double median_of_maximum(const TrafficSeries& series, double OperationReport::*member) {
  std::vector<double> worst;
  for (const auto& ranks : series.steps) {
    double most = 0;
    for (const TrafficRecord& record : ranks) most = std::max(most, record.total.*member);
    worst.push_back(most);
  }
  return median(worst);
}

// Streams write "nan" and "inf" but do not read them.
double number_from(std::istream& in) {
  std::string word;
  in >> word;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != 0) in.setstate(std::ios::failbit);
  return value;
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

/// What carries the messages of a class: as channels choose it where the configuration leaves it open.
Protocol protocol_of(const TrainConfig& config, const TrafficKey& key) {
  if (key.traffic == TrafficClass::pp_forward || key.traffic == TrafficClass::pp_backward)
    return Protocol::point_to_point;
  if (!compresses(key.codec)) return Protocol::dense;
  const auto rule = config.compress.find(key.traffic);
  if (rule != config.compress.end() && rule->second.protocol != Protocol::automatic && key.level != ChannelLevel::inside)
    return rule->second.protocol;
  return make_codec(key.codec, config.form).codec->traits().rounds > 0 ? Protocol::rounds : Protocol::gather;
}

results::TrainingTimeRow time_row(const TrainRun& run) {
  results::TrainingTimeRow row;
  row.plan = run.plan;
  row.link = run.link;
  row.compute = compute_of(run);
  row.compute_scale = run.config.compute_scale;
  const std::size_t ranks = run.ranks.size(), steps = run.ranks.front().size();
  row.steps = static_cast<std::int64_t>(steps);
  std::vector<double> step_ms, share, compute, encode, transfer, decode, wait;
  for (std::size_t step = 0; step < steps; ++step) {
    double longest = 0, busiest = 0;
    StepSplit mean;
    for (const auto& of_rank : run.ranks) {
      const StepSplit split = split_of(of_rank[step]);
      longest = std::max(longest, of_rank[step].seconds * 1e6);
      busiest = std::max(busiest, split.compute);
      mean.compute += split.compute / static_cast<double>(ranks);
      mean.encode += split.encode / static_cast<double>(ranks);
      mean.transfer += split.transfer / static_cast<double>(ranks);
      mean.decode += split.decode / static_cast<double>(ranks);
      mean.wait += split.wait / static_cast<double>(ranks);
    }
    step_ms.push_back(longest * 1e-3);
    share.push_back(communication_share(run.config, busiest, longest));
    compute.push_back(mean.compute * 1e-3);
    encode.push_back(mean.encode * 1e-3);
    transfer.push_back(mean.transfer * 1e-3);
    decode.push_back(mean.decode * 1e-3);
    wait.push_back(mean.wait * 1e-3);
  }
  row.step_ms = median(step_ms);
  row.step_iqr_ms = quantile(step_ms, 0.75) - quantile(step_ms, 0.25);
  // Ranks that fight for cores, or for a device, stretch each other's computing: no verdict from that.
  if (run.config.compute != ComputeMode::real || (run.oversubscription <= 1 && !emulated(run)))
    row.communication_share = median(share);
  row.compute_ms = median(compute);
  row.encode_ms = median(encode);
  row.transfer_ms = median(transfer);
  row.decode_ms = median(decode);
  row.wait_ms = median(wait);
  const TrainConfig& c = run.config;
  const std::int64_t tokens = c.global_batch * c.seq;
  row.tokens_per_second = static_cast<double>(tokens) / (row.step_ms * 1e-3);
  row.device = run.device;
  if (c.compute == ComputeMode::real && (run.device.empty() ? run.oversubscription <= 1 : !emulated(run))) {
    row.gflops = model_gflops(c.model_kind, c.model, c.seq, tokens, row.step_ms * 1e-3);
    row.peak_gflops = run.peak_gflops, row.peak = run.peak;
    row.mfu = row.gflops / row.peak_gflops;
  }
  return row;
}

}  // namespace

std::string to_text(const std::vector<StepRecord>& steps) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  for (const StepRecord& s : steps) {
    text << "step " << s.step << ' ' << s.loss << ' ' << s.gradient_norm << ' ' << s.learning_rate << ' '
         << s.seconds << ' ' << s.compute_us << ' ' << s.forward_us << ' ' << s.backward_us << ' ' << s.wait_us << ' ' << static_cast<int>(s.norm_scope) << ' ' << s.tokens << ' ' << s.traffic.size()
         << ' ' << s.slice_forward_us.size();
    for (std::size_t n = 0; n < s.slice_forward_us.size(); ++n) text << ' ' << s.slice_forward_us[n] << ' ' << s.slice_backward_us[n];
    text << '\n';
    for (const TrafficRecord& t : s.traffic) {
      text << name_of(t.traffic) << ' ' << static_cast<int>(t.level) << ' ' << t.codec << ' ' << t.operations << ' ' << t.error_squared << ' '
           << t.reference_squared;
      for (const auto member : time_members) text << ' ' << t.total.*member;
      for (const auto member : byte_members) text << ' ' << t.total.*member;
      text << '\n';
    }
  }
  return text.str();
}

std::vector<StepRecord> steps_from_text(const std::string& text) {
  std::istringstream in(text);
  std::vector<StepRecord> steps;
  const auto require = [&] {
    if (!in)
      throw CorruptData("step records of a rank are damaged after step " + std::to_string(steps.size()));
  };
  for (std::string word; in >> word;) {
    StepRecord s;
    std::size_t classes = 0, slices = 0;
    in >> s.step;
    for (double* value : {&s.loss, &s.gradient_norm, &s.learning_rate, &s.seconds, &s.compute_us, &s.forward_us, &s.backward_us, &s.wait_us})
      *value = number_from(in);
    int scope = 0;
    in >> scope >> s.tokens >> classes >> slices;
    require();
    if (scope < 0 || scope > static_cast<int>(NormScope::all)) throw CorruptData("step records of a rank name scope " + std::to_string(scope) + " of a norm");
    s.norm_scope = static_cast<NormScope>(scope);
    for (std::size_t n = 0; n < slices; ++n) {
      s.slice_forward_us.push_back(number_from(in));
      s.slice_backward_us.push_back(number_from(in));
      require();
    }
    for (std::size_t i = 0; i < classes; ++i) {
      TrafficRecord t;
      std::string traffic;
      int level = 0;
      in >> traffic >> level >> t.codec >> t.operations;
      t.error_squared = number_from(in);
      t.reference_squared = number_from(in);
      for (const auto member : time_members) t.total.*member = number_from(in);
      for (const auto member : byte_members) in >> t.total.*member;
      require();
      if (level < 0 || level > static_cast<int>(ChannelLevel::across)) throw CorruptData("step records of a rank name level " + std::to_string(level) + " of an exchange");
      t.traffic = parse_traffic(traffic), t.level = static_cast<ChannelLevel>(level);
      s.traffic.push_back(std::move(t));
    }
    steps.push_back(std::move(s));
  }
  return steps;
}

StepSplit split_of(const StepRecord& step) {
  StepSplit split;
  double transfer = 0;
  split.compute = step.compute_us;
  for (const TrafficRecord& t : step.traffic) {
    split.encode += t.total.encode_us;
    split.decode += t.total.decode_us;
    transfer += t.total.transfer_us;
  }
  const double blocked = std::max(0.0, step.seconds * 1e6 - split.compute - split.encode - split.decode);
  split.transfer = std::min(transfer, blocked);
  split.wait = blocked - split.transfer;
  return split;
}

double communication_share(const TrainConfig& config, double busiest_compute, double step) {
  const double bubble = static_cast<double>(config.mesh.pp - 1) /
                        static_cast<double>(config.virtual_stages * config.micro_batches() * static_cast<std::int64_t>(config.slices().size()));
  return std::max(0.0, 1 - busiest_compute * (1 + bubble) / step);
}

results::TrainingTables training_tables(const TrainRun& run) {
  results::TrainingTables tables;
  if (run.ranks.empty() || run.ranks.front().empty()) return tables;
  const std::size_t steps = run.ranks.front().size();
  const auto ranks = static_cast<double>(run.ranks.size());
  for (std::size_t rank = 0; rank < run.peak_bytes.size(); ++rank)
    tables.memory.push_back({"", run.plan, static_cast<std::int64_t>(rank), mesh_coordinates(run.config.mesh, static_cast<int>(rank)).pp, run.peak_bytes[rank]});
  if (run.config.compute == ComputeMode::real) {
    std::int64_t sent = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const StepRecord& first = run.ranks.front()[step];
      for (const auto& of_rank : run.ranks)
        for (const TrafficRecord& t : of_rank[step].traffic) sent += t.total.link_bytes;
      results::TrainingCurveRow row;
      row.plan = run.plan;
      row.step = first.step;
      row.loss = first.loss;
      if (const auto found = run.validation.find(first.step); found != run.validation.end())
        row.validation_loss = found->second;
      row.link_bytes = sent;
      row.grad_norm = first.gradient_norm;
      row.learning_rate = first.learning_rate;
      tables.curve.push_back(std::move(row));
    }
  }
  for (const auto& [step, metrics] : run.metrics)
    for (const Evaluation::Metric& metric : metrics) tables.metrics.push_back({"", run.plan, step, metric.name, metric.value});
  tables.time.push_back(time_row(run));
  for (const auto& [key, series] : series_of(run)) {
    const TrafficRecord total = total_of(key, series);
    const auto per_step = [&](double sum) { return sum / static_cast<double>(steps); };
    results::TrainingTrafficRow row;
    row.plan = run.plan;
    row.traffic = name_of(key.traffic, key.level);
    row.codec = key.codec;
    row.operations = rounded(per_step(static_cast<double>(total.operations)));
    row.dense_bytes = rounded(per_step(static_cast<double>(total.total.dense_bytes)));
    row.payload_bytes = rounded(per_step(static_cast<double>(total.total.payload_bytes)));
    row.link_bytes = rounded(per_step(static_cast<double>(total.total.link_bytes)));
    row.encode_us = per_step(total.total.encode_us) / ranks;
    row.transfer_us = per_step(total.total.transfer_us) / ranks;
    row.decode_us = per_step(total.total.decode_us) / ranks;
    row.relative_error = relative_error(total);
    for (std::size_t step = 0; step < series.steps.size(); ++step) {
      TrafficRecord sum;
      for (const TrafficRecord& of_rank : series.steps[step]) add(sum, of_rank);
      tables.steps.push_back({{}, run.plan, row.traffic, row.codec, run.ranks.front()[step].step, sum.total.link_bytes,
                              sum.total.encode_us / ranks, sum.total.transfer_us / ranks, sum.total.decode_us / ranks, relative_error(sum)});
    }
    tables.traffic.push_back(std::move(row));
  }
  return tables;
}

std::vector<results::CellRow> training_rows(const TrainRun& run) {
  std::vector<results::CellRow> rows;
  const TrainConfig& c = run.config;
  results::CellRow common;
  common.operation = "train_step";
  common.method = run.plan;
  common.form = name_of(c.form);
  common.dtype = name_of(c.dtype == DType::f64 ? DType::f64 : c.comm_dtype);
  common.source = "training";
  common.corpus = run.corpus;
  common.compute = compute_of(run);
  common.device = run.device;
  if (emulated(run)) {
    common.status = results::name_of(results::Status::mistrusted);
    common.reason = "a device emulated on the host: losses and bytes count, times say nothing about a GPU";
  }
  common.oversubscription = run.oversubscription;
  common.tp = c.mesh.tp, common.pp = c.mesh.pp, common.dp = c.mesh.dp;
  common.layers = c.model.layers, common.hidden = c.model.hidden;
  common.batch = c.micro_batch, common.seq = c.seq;
  common.seed = static_cast<std::int64_t>(c.model.seed);
  for (const auto& [key, series] : series_of(run)) {
    const TrafficRecord total = total_of(key, series);
    const auto steps = static_cast<double>(series.steps.size()),
               ranks = static_cast<double>(run.ranks.size());
    const auto mean = [&](std::int64_t bytes) { return rounded(static_cast<double>(bytes) / steps / ranks); };
    results::CellRow row = common;
    row.traffic = name_of(key.traffic, key.level);
    row.codec = key.codec;
    row.protocol = name_of(protocol_of(c, key));
    row.dense_bytes = mean(total.total.dense_bytes);
    row.payload_bytes = mean(total.total.payload_bytes);
    row.link_bytes = mean(total.total.link_bytes);
    row.received_bytes = mean(total.total.received_bytes);
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      double bytes = 0;
      for (const auto& of_step : series.steps) bytes += static_cast<double>(of_step[rank].total.link_bytes);
      row.link_bytes_max = std::max(row.link_bytes_max, rounded(bytes / steps));
    }
    row.encode_us = median_of_maximum(series, &OperationReport::encode_us);
    row.transfer_us = median_of_maximum(series, &OperationReport::transfer_us);
    row.decode_us = median_of_maximum(series, &OperationReport::decode_us);
    row.total_us = median_of_maximum(series, &OperationReport::total_us);
    row.repetitions = static_cast<std::int64_t>(series.steps.size());
    row.relative_l2 = relative_error(total);
    row.vnmse = row.relative_l2 * row.relative_l2;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {  // one rank, nothing to send: the cell still has a row
    common.traffic = name_of(TrafficClass::control);
    common.codec = uncompressed;
    common.repetitions = run.ranks.empty() ? 0 : static_cast<std::int64_t>(run.ranks.front().size());
    rows.push_back(std::move(common));
  }
  return rows;
}

std::vector<results::SampleRow> step_samples(const TrainRun& run) {
  std::vector<results::SampleRow> samples;
  if (run.config.compute == ComputeMode::real || run.ranks.empty()) return samples;
  for (std::size_t step = 0; step < run.ranks.front().size(); ++step) {
    results::SampleRow sample;
    sample.traffic = "step";
    sample.repetition = static_cast<std::int64_t>(step);
    sample.total_us = 0;
    for (const auto& of_rank : run.ranks) sample.total_us = std::max(sample.total_us, of_rank[step].seconds * 1e6);
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::int64_t link_bytes_of(const TrainRun& run) {
  std::int64_t sent = 0;
  for (const auto& of_rank : run.ranks)
    for (const StepRecord& step : of_rank)
      for (const TrafficRecord& t : step.traffic) sent += t.total.link_bytes;
  return sent;
}

}  // namespace thinwire::bench
