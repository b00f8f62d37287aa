// bench_collective: dense collectives in nccl-tests' terms (its doc/PERFORMANCE.md): time, algbw, busbw, #wrong.
// Inputs are small integers, so the right answer is known exactly in every type.
#include <algorithm>
#include <numeric>
#include <optional>

#include "bench/harness/link_trust.h"
#include "collectives/link/link_calibration.h"
#include "bench/harness/measure.h"
#include "bench/harness/timing.h"
#include "bench/harness/baseline.h"
#include "collectives/process/node_info.h"
#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "core/formulas.h"
#include "core/process/main_guard.h"
#include "core/statistics.h"
#include "kernels/values.h"
#include "models/cost_model/machine_file.h"
#include "results/files/files.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

float value_at(std::int64_t index, int rank) { return static_cast<float>((index * 7 + rank * 3) % 13 - 6); }

Tensor filled(std::int64_t elements, int rank, DType wire, std::int64_t first = 0) {
  Tensor x(Shape{elements, 1});
  for (std::int64_t i = 0; i < elements; ++i) x.as<float>()[static_cast<std::size_t>(i)] = value_at(first + i, rank);
  return to_wire(x, wire);
}

/// Where a cell's tensors lie: the host, or a device with a stream of this bench's own.
class Where {
 public:
  explicit Where(const std::string& device, const Communicator& world) {
    if (device == "host") return;
    if (device != "cuda") throw UsageError("--device " + device + ": host or cuda");
    if (const std::string reason = why_unavailable(DeviceKind::cuda); !reason.empty()) throw EnvironmentError("--device cuda: " + reason);
    devices_ = device_module().devices();
    const Device own{DeviceKind::cuda, world.rank() % devices_};
    stream_.emplace(own);
    scope_.emplace(Placement{own, stream_->get()});
  }
  /// A copy there of what lies on the host.
  static Tensor put(const Tensor& x) {
    Tensor there(x.shape(), x.dtype());
    copy_and_wait(there.view().data(), x.view().data(), x.bytes());
    return there;
  }
  /// Times on a device say what it is, and how many ranks it serves; those of an emulated one say nothing.
  void describe(results::CellRow& row, const Communicator& channel) const {
    if (devices_ == 0) return;
    row.compute = device_name(placement().device);
    row.oversubscription = static_cast<double>(NodeInfo::ranks_here()) / devices_;
    row.method += ", " + channel.transport();
    if (!row.compute.starts_with("emulated")) return;
    row.status = results::name_of(results::Status::mistrusted);
    row.reason = "a device emulated on the host: results and bytes count, times say nothing about a GPU";
  }

 private:
  int devices_ = 0;
  std::optional<OwnedStream> stream_;
  std::optional<PlacementScope> scope_;
};

/// The report once its times are known, which on a device is when the meter was read.
OperationReport reported(Channel& channel, Operation operation) {
  operation.wait();
  channel.meter();
  return operation.wait();
}

/// One collective on `bytes` per rank: how to run it, what must come out, and nccl-tests' bus factor.
struct Case {
  std::function<OperationReport()> body;
  std::function<float(std::int64_t)> expected;
  Tensor* out = nullptr;
  double bus_factor = 1;
};

void run_cell(BenchContext& context, const Cell& cell) {
  const CellParameters& p = cell.parameters;
  Communicator& world = context.world;
  const int rank = world.rank(), ranks = world.size();
  const DType wire = parse_dtype(p.text("dtype"));
  const std::string operation = p.text("operation"), algorithm = p.text("algorithm");
  if (algorithm != "library" && algorithm != "ring") throw UsageError("--algorithm " + algorithm + ": library or ring");
  if (algorithm == "ring" && operation != "all_reduce" && operation != "reduce_scatter" && operation != "all_gather")
    throw UsageError("--algorithm ring is for all_reduce, reduce_scatter and all_gather; " + operation + " is the library's alone");
  const std::int64_t elements = p.integer("bytes") / static_cast<std::int64_t>(size_of(wire));
  if (elements < ranks) throw UsageError("--bytes " + p.text("bytes") + " is less than one element per rank");
  const Where where(p.text("device"), world);
  Channel channel(world, {TrafficClass::control, uncompressed, Form::fair, operation == "send_recv" ? Protocol::point_to_point : Protocol::dense, wire,
                          algorithm == "ring" ? DenseAlgorithm::ring : DenseAlgorithm::library, false});
  channel.empty_bucket_before_transfers(token_bucket_bytes(context.link));
  const RowBlock mine = shard_rows(elements, rank, ranks);
  const auto given = [&](std::int64_t count) {
    const PlacementScope host{Device{}};
    return filled(count, rank, wire);
  };
  Tensor in = Where::put(given(operation == "all_gather" ? mine.count : elements));
  Tensor out(operation == "reduce_scatter" ? Shape{mine.count, 1} : Shape{elements, 1}, wire);
  const auto sum_at = [ranks](std::int64_t i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value_at(i, r);
    return sum;
  };
  Case test;
  test.out = &out;
  const MessageKey key;
  if (operation == "all_reduce") {
    test = {[&] { return reported(channel, channel.all_reduce(in.view(), out.view(), key)); }, sum_at, &out, bus_factor_all_reduce(ranks)};
  } else if (operation == "reduce_scatter") {
    test = {[&] { return reported(channel, channel.reduce_scatter(in.view(), out.view(), key)); }, [&](std::int64_t i) { return sum_at(mine.first + i); }, &out,
            bus_factor_scatter_or_gather(ranks)};
  } else if (operation == "all_gather") {
    test = {[&] { return reported(channel, channel.all_gather(in.view(), out.view(), key)); },
            [&](std::int64_t i) {
              int owner = 0;
              while (i >= shard_rows(elements, owner, ranks).first + shard_rows(elements, owner, ranks).count) ++owner;
              return value_at(i - shard_rows(elements, owner, ranks).first, owner);
            },
            &out, bus_factor_scatter_or_gather(ranks)};
  } else if (operation == "broadcast") {
    test = {[&] { return reported(channel, channel.broadcast(in.view(), 0, key)); }, [](std::int64_t i) { return value_at(i, 0); }, &in, 1};
  } else if (operation == "reduce") {
    test = {[&] { return reported(channel, channel.reduce(in.view(), out.view(), 0, key)); }, sum_at, rank == 0 ? &out : nullptr, 1};
  } else if (operation == "send_recv") {
    // Every rank to its right neighbour and from its left one: both directions of every link at once.
    test = {[&] {
              Operation both[] = {channel.send(in.view(), (rank + 1) % ranks, key), channel.receive(out.view(), (rank + ranks - 1) % ranks, key)};
              wait_all(both);
              const OperationReport reports[] = {reported(channel, both[0]), reported(channel, both[1])};
              return combine(reports);
            },
            [&](std::int64_t i) { return value_at(i, (rank + ranks - 1) % ranks); }, &out, 1};
  } else {
    throw UsageError("--operation " + operation + ": all_reduce, reduce_scatter, all_gather, broadcast, reduce or send_recv");
  }

  Laps laps;
  lap(world, test.body);
  std::int64_t wrong = 0;
  if (test.out != nullptr) {
    const Tensor arrived = on_host(test.out->view());
    const PlacementScope host{Device{}};
    Tensor scratch;
    const std::span<const float> result = from_wire(arrived, scratch);
    for (std::size_t i = 0; i < result.size(); ++i) wrong += result[i] != test.expected(static_cast<std::int64_t>(i));
  }
  std::int64_t all_wrong = 0;
  world.all_reduce(&wrong, &all_wrong, 1, DType::i64, ReduceOp::sum)->wait();
  if (all_wrong > 0) throw WrongResult(operation + " by " + algorithm + ": " + std::to_string(all_wrong) + " wrong elements; the row is not timed");

  results::CellRow row;
  row.cell_id = cell.cell_id;
  row.traffic = name_of(TrafficClass::control);
  row.operation = operation;
  row.method = algorithm;
  row.codec = uncompressed;
  row.protocol = name_of(channel.protocol());
  row.dtype = name_of(wire);
  row.tensor = "integers";
  row.source = "generated";
  row.hidden = elements;
  row.relative_l2 = row.vnmse = 0;
  if (!context.check_only) {
    for (RepetitionLoop loop(stop_rule(p), &world); loop.next();) {
      auto one = lap(world, test.body);
      double slowest = 0;
      for (const OperationReport& r : one) slowest = std::max(slowest, r.total_us);
      loop.add(slowest);
      if (!loop.warming_up()) laps.push_back(std::move(one));
    }
    const ComputePlan plan = compute_plan(world);
    CodecLaps codec;
    codec.alone = laps.back();
    codec.timed = std::move(laps);
    fill_times(row, {false, plan.oversubscription}, codec, {}, "");
    row.dense_bytes = elements * static_cast<std::int64_t>(size_of(wire));
    row.algbw_gbps = algorithm_bandwidth(static_cast<double>(row.dense_bytes), row.total_us);
    row.busbw_gbps = row.algbw_gbps * test.bus_factor;
    where.describe(row, channel.communicator());
    Measured measured;
    append_samples(measured.samples, row, codec.timed, false);
    measured.rows.push_back(std::move(row));
    LinkTrust(context).judge(measured);
    context.finish(cell, std::move(measured));
    return;
  }
  Measured measured;
  measured.rows.push_back(std::move(row));
  context.finish(cell, std::move(measured));
}

/// Ring sums of 8 B per rank to 4 MiB, each the median of nine laps; latency and rate into `path`, beside the links that it holds.
void fit_machine(BenchContext& context, const std::string& path) {
  Communicator& world = context.world;
  if (world.size() < 2) throw UsageError("--fit measures a link; start two ranks or more");
  Channel channel(world, {TrafficClass::control, uncompressed, Form::fair, Protocol::dense, DType::f32, DenseAlgorithm::ring, false});
  channel.empty_bucket_before_transfers(token_bucket_bytes(context.link));
  std::vector<FitPoint> points;
  std::fprintf(context.text, world.rank() == 0 ? "#%11s %12s %12s\n" : "", "bytes", "time (us)", "fit (us)");
  for (std::int64_t elements = 2 * world.size(); elements * 4 <= 4 << 20; elements *= 4) {
    Tensor in = filled(elements, world.rank(), DType::f32), out(Shape{elements, 1});
    const auto body = [&] { return channel.all_reduce(in.view(), out.view(), MessageKey()).wait(); };
    lap(world, body);
    std::vector<double> times;
    double bytes = 0;
    for (int i = 0; i < 9; ++i) {
      double slowest = 0;
      for (const OperationReport& r : lap(world, body)) {
        slowest = std::max(slowest, r.total_us);
        bytes = std::max(bytes, static_cast<double>(r.link_bytes));
      }
      times.push_back(slowest);
    }
    points.push_back({2.0 * (world.size() - 1), bytes, median(times)});
  }
  if (world.rank() != 0) return;
  const LinkFit fit = fit_link(points);
  for (const FitPoint& p : points)
    std::fprintf(context.text, "%12.0f %12.1f %12.1f\n", p.bytes, p.us, p.messages * fit.link.latency_us + 8e-3 * p.bytes / fit.link.gbps);
  std::fprintf(context.text, "%s: %.4g Gbit/s, %.3g us latency; farthest point %.0f %% off\n", context.link.c_str(), fit.link.gbps, fit.link.latency_us,
               100 * fit.worst);
  MachineFile machine = MachineFile::read(path);
  machine.links[context.link] = fit.link;
  results::write_file_atomically(path, machine.to_toml());
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_collective";
    program.summary = "dense collectives in nccl-tests' columns, by the library and by our ring";
    program.options = {{"operation", "all_reduce", "all_reduce | reduce_scatter | all_gather | broadcast | reduce | send_recv"},
                       {"bytes", "1048576", "bytes of the whole tensor"},
                       {"dtype", "f32", "f32 | f16 | bf16"},
                       {"algorithm", "library", "library | ring (all_reduce, reduce_scatter, all_gather)"},
                       {"device", "host", "where tensors lie: host | cuda (a rank's own device, or one that ranks share; docs/device.md)"}};
    program.run_options = {{"fit", "measure latency and rate of the link and write them into this machine file (TOML; docs/training.md)"}};
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
      if (const auto file = context.run_options.find("fit"); file != context.run_options.end()) return fit_machine(context, file->second);
      for (const Cell& cell : cells) {
        context.start(cell);
        guarded(context, cell, [&] { run_cell(context, cell); });
      }
    };
    return run_bench(count, values, program);
  });
}
