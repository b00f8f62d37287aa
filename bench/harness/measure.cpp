#include "bench/harness/measure.h"

#include <algorithm>
#include <cmath>

#include "collectives/process/node_info.h"
#include "collectives/process/rank_clock.h"
#include "collectives/process/waiter.h"
#include "core/formulas.h"
#include "core/statistics.h"
#include "kernels/codec/registry.h"

namespace thinwire::bench {
namespace {

template <typename Get>
double median_of_maximum(const Laps& laps, Get get) {
  std::vector<double> values;
  for (const auto& ranks : laps) {
    double largest = 0;
    for (const OperationReport& r : ranks) largest = std::max(largest, get(r));
    values.push_back(largest);
  }
  return median(values);
}

double interquartile_range_of_total(const Laps& laps) {
  std::vector<double> values;
  for (const auto& ranks : laps) {
    double largest = 0;
    for (const OperationReport& r : ranks) largest = std::max(largest, r.total_us);
    values.push_back(largest);
  }
  return summarize(values).interquartile_range;
}

template <typename Get>
double maximum_over(std::span<const OperationReport> ranks, Get get) {
  double largest = 0;
  for (const OperationReport& r : ranks) largest = std::max(largest, static_cast<double>(get(r)));
  return largest;
}

/// Sum over ranks per rank of a collective, or per message.
template <typename Get>
std::int64_t mean_over(std::span<const OperationReport> ranks, int messages, Get get) {
  double sum = 0;
  for (const OperationReport& r : ranks) sum += static_cast<double>(get(r));
  return std::llround(sum / (messages > 0 ? messages : static_cast<double>(ranks.size())));
}

}  // namespace

std::vector<OperationReport> lap(Communicator& world, const std::function<OperationReport()>& body) {
  world.barrier();
  const std::int64_t start = RankClock::now_ns();
  OperationReport mine = body();
  // Emptying a token bucket just before a timed transfer is not part of the operation.
  mine.total_us = std::max(0.0, static_cast<double>(RankClock::now_ns() - start) * 1e-3 - mine.untimed_us);
  std::vector<OperationReport> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&mine, sizeof mine, all.data())->wait();
  for (OperationReport& report : all) report.algorithm = mine.algorithm;  // a pointer means nothing on another rank
  return all;
}

ComputePlan compute_plan(Communicator& world) {
  const double here = NodeInfo::oversubscription();
  double largest = 0;  // one plan for all: the most crowded machine decides
  world.all_reduce(&here, &largest, 1, DType::f64, ReduceOp::max)->wait();
  return {largest > 1.0, largest};
}

std::vector<BenchOption> counted_repetitions_options() {
  const std::string no_effect = "of benches that repeat until the noise is small; of no effect here";
  return {{"repetitions", "0", "measured repetitions; 0: 5"}, {"min-time", "0.05", no_effect}, {"max-time", "2", no_effect}};
}

int repetitions_of(const CellParameters& parameters) {
  const std::int64_t asked = parameters.integer("repetitions");
  if (asked < 0) throw UsageError("--repetitions must not be negative");
  return asked == 0 ? 5 : static_cast<int>(asked);
}

CodecLaps measure_codec(Communicator& world, const ComputePlan& plan, int serial, int repetitions,
                        const std::function<void(ComputeMode)>& set_compute, const std::function<OperationReport()>& body,
                        std::vector<OperationReport> verified, bool verified_counts) {
  CodecLaps result;
  if (verified_counts) result.timed.push_back(verified);
  Laps before{std::move(verified)};
  for (int i = 1; plan.timed && i < serial; ++i) before.push_back(lap(world, body));
  if (plan.timed) set_compute(ComputeMode::replay);
  while (static_cast<int>(result.timed.size()) < repetitions) result.timed.push_back(lap(world, body));
  const Laps& alone = plan.timed ? before : result.timed;
  result.alone = alone.front();
  for (std::size_t rank = 0; rank < result.alone.size(); ++rank) {
    const auto median_over_laps = [&](double OperationReport::* member) {
      std::vector<double> values;
      for (const auto& ranks : alone) values.push_back(ranks[rank].*member);
      result.alone[rank].*member = median(values);
    };
    for (auto member : {&OperationReport::encode_us, &OperationReport::decode_us, &OperationReport::encode_cpu_us, &OperationReport::decode_cpu_us})
      median_over_laps(member);
  }
  return result;
}

double median_total_us(const Laps& laps) {
  return median_of_maximum(laps, [](const OperationReport& r) { return r.total_us; });
}

void fill_times(results::CellRow& row, const ComputePlan& plan, const CodecLaps& codec, const Laps& baseline, const std::string& baseline_name,
                int messages) {
  const std::vector<OperationReport>& ranks = codec.timed.back();
  row.compute = plan.timed ? "timed" : "real";
  row.oversubscription = plan.oversubscription;
  row.repetitions = static_cast<std::int64_t>(codec.timed.size());
  // Both ends of a message report its dense size.
  row.dense_bytes = mean_over(ranks, 2 * messages, [](auto& r) { return r.dense_bytes; });
  row.payload_bytes = mean_over(ranks, messages, [](auto& r) { return r.payload_bytes; });
  row.link_bytes = mean_over(ranks, messages, [](auto& r) { return r.link_bytes; });
  row.link_bytes_max = static_cast<std::int64_t>(maximum_over(ranks, [](auto& r) { return r.link_bytes; }));
  row.received_bytes = mean_over(ranks, messages, [](auto& r) { return r.received_bytes; });
  row.total_us = median_total_us(codec.timed);
  row.total_iqr_us = interquartile_range_of_total(codec.timed);
  row.encode_us = median_of_maximum(codec.timed, [](const OperationReport& r) { return r.encode_us; });
  row.decode_us = median_of_maximum(codec.timed, [](const OperationReport& r) { return r.decode_us; });
  row.transfer_us = std::max(0.0, row.total_us - row.encode_us - row.decode_us);
  row.encode_cpu_us = maximum_over(codec.alone, [](auto& r) { return r.encode_cpu_us; });
  row.decode_cpu_us = maximum_over(codec.alone, [](auto& r) { return r.decode_cpu_us; });
  row.algbw_gbps = algorithm_bandwidth(static_cast<double>(row.dense_bytes), row.total_us);
  const double bus = row.operation == "all_reduce" ? bus_factor_all_reduce(static_cast<int>(row.tp * row.dp))
                     : row.operation == "reduce_scatter" || row.operation == "all_gather"
                         ? bus_factor_scatter_or_gather(static_cast<int>(row.tp * row.dp))
                         : 1.0;
  row.busbw_gbps = row.algbw_gbps * bus;
  if (baseline.empty()) return;
  row.baseline = baseline_name;
  row.baseline_us = median_total_us(baseline);
  row.baseline_iqr_us = interquartile_range_of_total(baseline);
  row.baseline_link_bytes = mean_over(baseline.back(), messages, [](auto& r) { return r.link_bytes; });
  row.ratio = static_cast<double>(row.baseline_link_bytes) / static_cast<double>(std::max<std::int64_t>(1, row.link_bytes));
  row.speedup = row.baseline_us / row.total_us;
  // Codec time alone on one core, never oversubscribed wall time.
  const double codec_us = maximum_over(codec.alone, [](auto& r) { return r.encode_us; }) +
                          maximum_over(codec.alone, [](auto& r) { return r.decode_us; });
  if (compresses(row.codec))
    row.break_even_gbps = break_even_gbps(static_cast<double>(row.baseline_link_bytes), static_cast<double>(row.link_bytes), codec_us);
}

void append_samples(std::vector<results::SampleRow>& samples, const results::CellRow& row, const Laps& laps, bool baseline) {
  for (std::size_t repetition = 0; repetition < laps.size(); ++repetition)
    for (std::size_t rank = 0; rank < laps[repetition].size(); ++rank) {
      const OperationReport& r = laps[repetition][rank];
      samples.push_back({row.cell_id, row.traffic, static_cast<std::int64_t>(rank), static_cast<std::int64_t>(repetition), r.encode_us,
                         r.transfer_us, r.decode_us, r.total_us, baseline ? 1 : 0});
    }
}

OperationReport combine(std::span<const OperationReport> operations) {
  OperationReport sum;
  for (const OperationReport& r : operations) sum += r;
  return sum;
}

void wait_all(std::span<Operation> operations) {
  Waiter waiter;
  for (int idle = 0;; ++idle) {
    bool all = true;
    for (Operation& operation : operations)
      if (operation.valid()) all = operation.test() && all;
    if (all) return;
    if (idle > 50) waiter.nap();
  }
}

}  // namespace thinwire::bench
