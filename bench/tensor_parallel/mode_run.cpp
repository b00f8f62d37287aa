#include "bench/tensor_parallel/mode_run.h"

#include <algorithm>
#include <optional>

#include "bench/harness/measure.h"
#include "bench/harness/timing.h"
#include "bench/tensor_parallel/product_times.h"
#include "collectives/process/waiter.h"
#include "core/memory_counter.h"
#include "core/process/real_time.h"

namespace thinwire::bench {
namespace {

/// Mean of the received and sent bytes over ranks, and the most that one sends.
void fill_bytes(Communicator& world, results::CellRow& row, const OperationReport& mine) {
  const std::int64_t own[4] = {mine.dense_bytes, mine.payload_bytes, mine.link_bytes, mine.received_bytes};
  std::int64_t sums[4], most = 0;
  world.all_reduce(own, sums, 4, DType::i64, ReduceOp::sum)->wait();
  world.all_reduce(&mine.link_bytes, &most, 1, DType::i64, ReduceOp::max)->wait();
  row.dense_bytes = sums[0] / world.size(), row.payload_bytes = sums[1] / world.size(), row.link_bytes = sums[2] / world.size();
  row.received_bytes = sums[3] / world.size(), row.link_bytes_max = most;
}

}  // namespace

ModeRun::ModeRun(BenchContext& context, const Cell& cell, const GridShape& shape, const SplitSizes& s)
    : context_(context), world_(context.world), cell_(cell), shape_(shape), sizes_(s) {
  common_.cell_id = cell.cell_id;
  common_.method = shape.describe() + (shape.kind == GridKind::three_d ? ", gather " + name_of(s.gather) : "");
  common_.codec = codecs();
  common_.dtype = name_of(s.comm_dtype);
  common_.tensor = s.unit;
  common_.source = "generated";
  common_.tp = world_.size(), common_.batch = s.batch, common_.seq = s.seq, common_.hidden = s.hidden;
}

results::CellRow ModeRun::skipped(const std::string& reason) const {
  results::CellRow row = common_;
  row.operation = "step";
  row.status = results::name_of(results::Status::skipped);
  row.reason = reason;
  return row;
}

void ModeRun::run(const SplitReference& reference, LinkDrain* drain, Measured& measured) {
  const std::int64_t before = buffer_bytes();
  const auto unit = make_split_unit(world_, shape_, sizes_);
  const Tensor x = random_shard(sizes_, "x", sizes_.hidden, unit->input), dy = random_shard(sizes_, "dy", sizes_.out(), unit->output);
  Tensor y(dy.shape()), dx(x.shape());
  add_errors(reference.errors_of(*unit, x, y, dy, dx), measured);

  // Bytes of one pass each, and the memory of both: weights and gradients, activations in and out, all buffers.
  reset_buffer_bytes_peak();
  (void)unit->take_counts();
  const auto forward = [&] {
    unit->weights_changed();
    unit->forward(data_of<float>(x), y.as<float>().data());
  };
  const auto backward = [&] { unit->backward(data_of<float>(x), data_of<float>(dy), dx.as<float>().data()); };
  forward();
  const OperationReport forwards = add_collectives("forward", unit->take_counts(), measured);
  backward();
  const OperationReport backwards = add_collectives("backward", unit->take_counts(), measured);
  results::CellRow both = common_;
  both.operation = "step";
  fill_bytes(world_, both, combine(std::array{forwards, backwards}));
  measured.rows.push_back(both);
  std::int64_t peak = buffer_bytes_peak() - before, most = 0;
  world_.all_reduce(&peak, &most, 1, DType::i64, ReduceOp::max)->wait();
  results::CellRow memory = common_;
  memory.operation = "peak memory";
  memory.dense_bytes = most;
  measured.rows.push_back(memory);
  if (context_.check_only) return;
  time(*unit, forward, backward, drain, measured);
  add_products(*unit, "forward", forward, measured);
  add_products(*unit, "backward", backward, measured);
}

const CompressRule& ModeRun::rule(TrafficClass traffic) const {
  static const CompressRule dense;
  const auto found = sizes_.compress.find(traffic);
  return found == sizes_.compress.end() ? dense : found->second;
}

std::string ModeRun::codecs() const {
  std::string each;
  bool equal = true;
  for (const TrafficClass traffic : coded_classes) {
    each += (each.empty() ? "" : "; ") + name_of(traffic) + " " + rule(traffic).codec;
    equal = equal && rule(traffic).codec == rule(coded_classes.front()).codec;
  }
  return equal ? rule(coded_classes.front()).codec : each;
}

void ModeRun::add_errors(const SplitErrors& errors, Measured& measured) {
  const double tolerance = sizes_.comm_dtype == DType::f32 ? 1e-5 : 3e-2;
  for (const auto& [what, metrics] : {std::pair<std::string, const ErrorMetrics&>{"output", errors.output},
                                      {"input gradient", errors.input_gradient},
                                      {"weight gradient", errors.weight_gradient}}) {
    // Dense, a mode gives what one rank gives, or its row is not timed.
    if (sizes_.compress.empty()) require_close(metrics, tolerance, common_.method + ": " + what + " against one rank");
    results::CellRow row = common_;
    row.operation = "error of " + what;
    metrics.fill(row);
    measured.rows.push_back(row);
  }
}

void ModeRun::add_products(ShardedModule<float>& unit, const std::string& pass, const std::function<void()>& body, Measured& measured) {
  constexpr int repetitions = 5;
  unit.set_compute(ComputeMode::serial);
  const ProductTimes mine = product_times(repetitions, body);
  world_.barrier();
  unit.set_compute(ComputeMode::real);
  const double times[2] = {mine.us, mine.bare_us};
  double sums[2];
  world_.all_reduce(times, sums, 2, DType::f64, ReduceOp::sum)->wait();
  results::CellRow row = common_;
  row.operation = "products: " + pass;
  row.total_us = sums[0] / world_.size(), row.baseline_us = sums[1] / world_.size();
  row.baseline = "sgemm", row.speedup = row.baseline_us / row.total_us;
  row.repetitions = repetitions;
  measured.rows.push_back(row);
}

OperationReport ModeRun::add_collectives(const std::string& pass, const std::map<std::string, TensorGrid<float>::Count>& counts, Measured& measured) {
  // Ranks may lack a collective that others take part in (2.5-D vectors lie on row 0 alone): all must agree on the rows.
  std::string names;
  for (const auto& [label, count] : counts) names += label + "\n";
  std::vector<std::string> labels = labels_of_all(names);
  OperationReport total;
  for (const std::string& label : labels) {
    const auto found = counts.find(label);
    const TensorGrid<float>::Count count = found == counts.end() ? TensorGrid<float>::Count() : found->second;
    results::CellRow row = common_;
    row.operation = pass + ": " + label;
    int traffic = static_cast<int>(count.traffic), known = 0;
    if (found == counts.end()) traffic = 0;
    world_.all_reduce(&traffic, &known, 1, DType::i32, ReduceOp::max)->wait();
    row.traffic = name_of(static_cast<TrafficClass>(known));
    row.codec = rule(static_cast<TrafficClass>(known)).codec;
    fill_bytes(world_, row, count.sum);
    measured.rows.push_back(row);
    total += count.sum;
  }
  results::CellRow row = common_;
  row.operation = pass;
  fill_bytes(world_, row, total);
  measured.rows.push_back(row);
  return total;
}

std::vector<std::string> ModeRun::labels_of_all(const std::string& mine) {
  const std::int64_t bytes = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world_.size())), offsets(counts.size(), 0);
  world_.all_gather(&bytes, sizeof bytes, counts.data())->wait();
  for (std::size_t r = 1; r < counts.size(); ++r) offsets[r] = offsets[r - 1] + counts[r - 1];
  std::string all(static_cast<std::size_t>(offsets.back() + counts.back()), ' ');
  world_.all_gather_v(mine.data(), bytes, all.data(), counts, offsets)->wait();
  std::vector<std::string> labels;
  for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) labels.push_back(all.substr(begin, end - begin));
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

void ModeRun::time(ShardedModule<float>& unit, const std::function<void()>& forward, const std::function<void()>& backward, LinkDrain* drain, Measured& measured) {
  const ComputePlan plan = compute_plan(world_);
  // As timed training runs: ranks mostly sleep, and must wake when their wait ends, not when another job lets them.
  std::optional<RealTimePriority> undisturbed;
  const Waiter::Quiet naps(100);
  world_.barrier();
  if (plan.timed && plan.oversubscription <= 8) undisturbed.emplace();
  if (plan.timed) {
    world_.barrier();
    unit.set_compute(ComputeMode::serial);
    for (int i = 0; i < 3; ++i) forward(), backward();
    world_.barrier();
    unit.set_compute(ComputeMode::replay);
  }
  unit.drain_link(drain);
  (void)unit.take_counts();
  Laps laps[2];
  RepetitionLoop loop(stop_rule(cell_.parameters), &world_);
  while (loop.next()) {
    double step = 0;
    const bool counts = !loop.warming_up();
    for (int pass = 0; pass < 2; ++pass) {
      auto one = lap(world_, [&] {
        pass == 0 ? forward() : backward();
        std::vector<OperationReport> reports;
        for (const auto& [label, count] : unit.take_counts()) reports.push_back(count.sum);
        return combine(reports);
      });
      double slowest = 0;
      for (const OperationReport& r : one) slowest = std::max(slowest, r.total_us);
      step += slowest;
      if (counts) laps[pass].push_back(std::move(one));
    }
    loop.add(step);
  }
  unit.drain_link(nullptr);
  unit.set_compute(ComputeMode::real);
  for (results::CellRow& row : measured.rows) {
    if (row.operation != "step" || row.method != common_.method) continue;
    const Summary of_step = summarize(loop.samples());
    row.compute = plan.timed ? "timed" : "real", row.oversubscription = plan.oversubscription;
    row.total_us = of_step.median, row.total_iqr_us = of_step.interquartile_range;
    row.repetitions = static_cast<std::int64_t>(loop.samples().size());
  }
  for (int pass = 0; pass < 2; ++pass) {
    const std::string name = pass == 0 ? "forward" : "backward";
    for (results::CellRow& row : measured.rows) {
      if (row.operation != name || row.method != common_.method) continue;
      CodecLaps codec;
      codec.alone = laps[pass].back();
      codec.timed = std::move(laps[pass]);
      fill_times(row, plan, codec, {}, "");
      append_samples(measured.samples, row, codec.timed, false);
      break;
    }
  }
}
}  // namespace thinwire::bench
