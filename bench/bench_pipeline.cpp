// bench_pipeline: the step of a pipeline whose ranks sleep instead of computing, over any link: what a
// schedule's messages cost, without a model. Each rank is a stage and goes through the list of instructions
// that the trainer carries out; boundary messages of stated size travel. Steps are taken in windows, state of
// the link lives on between them.
//   mpirun --oversubscribe -n 8 bench_pipeline --link emulated:62.5mbit,latency=2.5ms,meter=inbound
//   --micro-batches 64 --bytes 262144
#include <algorithm>
#include <cstdio>
#include <optional>

#include "bench/harness/bench_program.h"
#include "bench/harness/link_trust.h"
#include "bench/harness/timing.h"
#include "collectives/process/node_info.h"
#include "collectives/process/rank_clock.h"
#include "collectives/process/waiter.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/process/main_guard.h"
#include "core/process/real_time.h"
#include "core/statistics.h"
#include "models/parallel/schedule/schedule.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

constexpr int forward_tag = 1, backward_tag = 2;

struct Work {
  std::int64_t micro_batches = 0, bytes = 0, backward_bytes = 0, steps = 0, windows = 0;
  double forward_us = 0, backward_us = 0, optimizer_us = 0;  ///< of this rank's stage
  std::string schedule;
};

Work work_of(const CellParameters& p, bool last_stage) {
  Work w;
  const auto number = [&](const char* name, std::int64_t least) {
    const std::int64_t value = p.integer(name);
    if (value < least)
      throw UsageError(std::string("--") + name + " is " + std::to_string(value) + "; it must be at least " +
                       std::to_string(least));
    return value;
  };
  const auto time = [&](const char* name) {
    const double value = p.real(name);
    if (!(value >= 0) || value > 1e9)
      throw UsageError(std::string("--") + name + " is no time in microseconds");
    return value;
  };
  w.micro_batches = number("micro-batches", 1), w.bytes = number("bytes", 1),
  w.backward_bytes = number("backward-bytes", 0), w.steps = number("steps", 1),
  w.windows = number("windows", 1);
  if (w.backward_bytes == 0) w.backward_bytes = w.bytes;
  w.forward_us = time("forward-us"), w.backward_us = time("backward-us"),
  w.optimizer_us = time("optimizer-us");
  const double last_forward = time("last-forward-us"), last_backward = time("last-backward-us");
  if (last_stage && last_forward > 0) w.forward_us = last_forward;
  if (last_stage && last_backward > 0) w.backward_us = last_backward;
  w.schedule = p.text("schedule");
  return w;
}

class SleepingStage {
 public:
  SleepingStage(Communicator& world, const Work& work)
      : world_(world),
        work_(work),
        schedule_(make_schedule(work.schedule, world.size(), static_cast<int>(work.micro_batches))),
        out_(largest()),
        in_(largest()) {}

  void step() {
    for (const Instruction& i : schedule_.stage[static_cast<std::size_t>(world_.rank())]) carry_out(i);
    for (const RequestPtr& request : sent_) request->wait();
    sent_.clear();
    sleep(work_.optimizer_us);
  }
  /// Bytes that this stage sends in a step.
  std::int64_t sends() const {
    const std::int64_t forward = world_.rank() + 1 < world_.size() ? work_.bytes : 0,
                       backward = world_.rank() > 0 ? work_.backward_bytes : 0;
    return work_.micro_batches * (forward + backward);
  }

 private:
  std::size_t largest() const {
    return static_cast<std::size_t>(std::max(work_.bytes, work_.backward_bytes));
  }
  static void sleep(double us) {
    if (us > 0) RankClock::sleep_until_ns(RankClock::now_ns() + static_cast<std::int64_t>(us * 1e3));
  }
  void carry_out(const Instruction& i) {
    switch (i.kind) {
      case InstructionKind::receive_forward:
        return world_.receive(in_.data(), work_.bytes, i.peer, forward_tag)->wait();
      case InstructionKind::receive_backward:
        return world_.receive(in_.data(), work_.backward_bytes, i.peer, backward_tag)->wait();
      case InstructionKind::send_forward:
        sent_.push_back(world_.send(out_.data(), work_.bytes, i.peer, forward_tag));
        return;
      case InstructionKind::send_backward:
        sent_.push_back(world_.send(out_.data(), work_.backward_bytes, i.peer, backward_tag));
        return;
      case InstructionKind::forward:
        return sleep(work_.forward_us);
      case InstructionKind::backward:
        return sleep(work_.backward_us);
      default:
        throw UsageError("--schedule " + work_.schedule +
                         " has instructions besides passes and boundary messages");
    }
  }

  Communicator& world_;
  const Work work_;
  const Schedule schedule_;
  std::vector<std::byte> out_, in_;
  std::vector<RequestPtr> sent_;
};

void run_cell(BenchContext& context, const Cell& cell) {
  Communicator& world = context.world;
  if (world.size() < 2)
    throw UsageError(
        "bench_pipeline needs a rank for each of at least two stages; launch: mpirun -n 4 bench_pipeline "
        "...");
  const Work work = work_of(cell.parameters, world.rank() + 1 == world.size());
  SleepingStage stage(world, work);
  std::optional<RealTimePriority> undisturbed;
  const Waiter::Quiet naps(100);  // as in train_gpt: eight ranks that poll every 20 us fill two cores, and steps come out 1 to 9 % longer (results/reference/cpu-2-cores/contest_link)
  world.barrier();  // a rank that is late must not find the cores taken
  if (NodeInfo::oversubscription() <= 8) undisturbed.emplace();
  if (!context.check_only) stage.step();  // connections open; the link is in its steady state from here on
  std::vector<double> window_us;
  const std::int64_t windows = context.check_only ? 1 : work.windows,
                     steps = context.check_only ? 1 : work.steps;
  for (std::int64_t window = 0; window < windows; ++window) {
    world.barrier();
    const std::int64_t begin = RankClock::now_ns();
    for (std::int64_t i = 0; i < steps; ++i) stage.step();
    double mine = static_cast<double>(RankClock::now_ns() - begin) * 1e-3 / static_cast<double>(steps), longest = 0;
    world.all_reduce(&mine, &longest, 1, DType::f64, ReduceOp::max)->wait();
    window_us.push_back(longest);
    context.note(cell,
                 "window " + std::to_string(window) + ": " + std::to_string(longest * 1e-3) + " ms a step");
  }
  const std::int64_t sends = stage.sends();
  std::int64_t all = 0, most = 0;
  world.all_reduce(&sends, &all, 1, DType::i64, ReduceOp::sum)->wait();
  world.all_reduce(&sends, &most, 1, DType::i64, ReduceOp::max)->wait();
  Measured measured;
  results::CellRow& row = measured.rows.emplace_back();
  row.traffic = "pp_forward", row.operation = work.schedule, row.codec = "none", row.compute = "timed",
  row.oversubscription = NodeInfo::oversubscription();
  row.payload_bytes = work.bytes, row.link_bytes = all, row.link_bytes_max = most, row.pp = world.size();
  const Summary us = summarize(window_us);
  row.total_us = us.median, row.total_iqr_us = us.interquartile_range,
  row.repetitions = static_cast<std::int64_t>(us.count);
  for (const double window : window_us) {
    results::SampleRow& sample = measured.samples.emplace_back();
    sample.traffic = row.traffic, sample.repetition = static_cast<std::int64_t>(measured.samples.size()) - 1, sample.total_us = window;
  }
  LinkTrust(context).judge(measured);
  context.finish(cell, std::move(measured));
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_pipeline";
    program.summary =
        "the step of a pipeline of sleeping ranks: what a schedule's boundary messages cost on a link";
    program.options = {
        {"schedule", "1f1b", "a schedule of train_gpt; every stage has one chunk of layers"},
        {"micro-batches", "8", "of a step"},
        {"bytes", "65536", "of a message between stages, forward"},
        {"backward-bytes", "0", "and backward; 0: the same"},
        {"forward-us", "0", "a stage's forward pass of a micro-batch [microseconds]"},
        {"backward-us", "0", "its backward pass [microseconds]"},
        {"last-forward-us", "0", "the last stage's, which has the head; 0: as the others [microseconds]"},
        {"last-backward-us", "0", "likewise [microseconds]"},
        {"optimizer-us", "0", "after a step [microseconds]"},
        {"steps", "10", "of a window"},
        {"windows", "3", "measured after a first step; the median window counts"}};
    program.has_timing_options = false;
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
      for (const Cell& cell : cells) {
        context.start(cell);
        guarded(context, cell, [&] { run_cell(context, cell); });
      }
    };
    return run_bench(count, values, program);
  });
}
