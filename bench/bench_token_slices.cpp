// bench_token_slices: t(b, s, c), how long the layers of a pipeline stage take for s tokens of b sequences after c tokens of context, measured on
// this machine; and what that means for token-sliced training (docs/token-slices.md): the step of equal slices and of the best ones.
//   bench_token_slices --layers 2 --hidden 256 --seq 512 --granularity 32 --stages 4 --micro-batches 2
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "bench/harness/bench_program.h"
#include "bench/harness/timing.h"
#include "collectives/process/node_info.h"
#include "core/clock.h"
#include "core/process/main_guard.h"
#include "core/random.h"
#include "core/process/real_time.h"
#include "core/statistics.h"
#include "models/gpt/gpt.h"
#include "models/optimizer/optimizer.h"
#include "models/cost_model/slice_times.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

struct Sizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, seq = 0, granularity = 0, rounds = 0, threads = 1, stages = 0, micro_batches = 0;
  int largest_batch = 1;
  std::uint64_t seed = 0;
};

Sizes sizes_of(const CellParameters& p) {
  Sizes s;
  const auto number = [&](const char* name) {
    const std::int64_t value = p.integer(name);
    if (value < 1) throw UsageError(std::string("--") + name + " is " + std::to_string(value) + "; it must be at least 1");
    return value;
  };
  s.layers = number("layers"), s.hidden = number("hidden"), s.heads = number("heads"), s.seq = number("seq"), s.granularity = number("granularity");
  s.rounds = number("rounds"), s.threads = number("threads"), s.stages = number("stages"), s.micro_batches = number("micro-batches"), s.largest_batch = static_cast<int>(number("batch"));
  s.seed = static_cast<std::uint64_t>(p.integer("seed"));
  if (s.seq % s.granularity != 0) throw UsageError("--seq " + std::to_string(s.seq) + " is no multiple of --granularity " + std::to_string(s.granularity));
  if (s.seq > 1 << 20 || s.seq / s.granularity > 512)
    throw UsageError("--granularity " + std::to_string(s.granularity) + " cuts " + std::to_string(s.seq) + " tokens into more than 512 steps; choose a larger one");
  return s;
}

/// One place (b, s, c) where the stage is measured, with activations of its own.
struct Point {
  SliceSample at;
  Gpt<float>::Activations saved;
  PrefixCache prefix;
  std::vector<double> forward_us = {}, backward_us = {};
};

/// All lengths without context; lengths in powers of two after contexts spread over the sequence: the model of the context has four numbers.
std::vector<Point> points_of(const Sizes& s) {
  std::set<std::array<int, 3>> places;
  const int seq = static_cast<int>(s.seq), g = static_cast<int>(s.granularity);
  for (int b = 1; b <= s.largest_batch; ++b) {
    for (int tokens = g; tokens <= seq; tokens += g) places.insert({b, tokens, 0});
    for (int tokens = g; 2 * tokens <= seq; tokens *= 2)
      for (const int context : {tokens, seq / 4 / g * g, seq / 2 / g * g, 3 * seq / 4 / g * g, seq - tokens})
        if (context > 0 && context + tokens <= seq) places.insert({b, tokens, context});
  }
  std::vector<Point> points;
  for (const auto& [b, tokens, context] : places) points.push_back({{b, tokens, context, 0, 0}, {}, {}});
  return points;
}

class Stage {
 public:
  explicit Stage(const Sizes& s) : sizes_(s), model_(config_of(s), {1, static_cast<int>(s.layers), false, false}), optimizer_(model_.parameters(), {}) {
    for (Parameter<float>* p : model_.parameters()) p->gradient.fill_zero();
    float* to = shaped<float>(numbers_, {s.largest_batch * s.seq, 2 * s.hidden});
    const Random random(s.seed, "slices");
    for (std::int64_t i = 0; i < numbers_.elements(); ++i) to[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  }

  void measure(Point& point) {
    PassContext pass{point.at.batch, point.at.tokens};
    pass.first_token = point.at.context;
    pass.length = point.at.context + point.at.tokens;  // the slice is the last one: its backward pass needs no other
    const std::int64_t rows = pass.rows();
    const Batch none(pass.batch, pass.seq);  // layers alone read no tokens
    if (point.prefix.empty()) prepare(point, pass);
    point.saved.prefix = &point.prefix;
    fill(gradient_, rows, sizes_.hidden);
    std::int64_t begin = now_ns();
    model_.forward(pass, none, 1.0, point.saved);
    std::int64_t end = now_ns();
    point.forward_us.push_back(static_cast<double>(end - begin) * 1e-3);
    begin = now_ns();
    model_.backward(none, point.saved, gradient_);
    end = now_ns();
    point.backward_us.push_back(static_cast<double>(end - begin) * 1e-3);
  }

  /// What a step does once: clear, norm, update.
  double optimizer_us() {
    const std::int64_t begin = now_ns();
    optimizer_.sum_of_squares();
    optimizer_.apply(1e-6, 1.0);
    model_.zero_gradients();
    return static_cast<double>(now_ns() - begin) * 1e-3;
  }

 private:
  static GptConfig config_of(const Sizes& s) {
    GptConfig c;
    c.hidden = s.hidden, c.layers = s.layers + 2, c.heads = s.heads, c.max_seq = s.seq, c.seed = s.seed;
    return c;
  }
  /// Random numbers; always the same, and never in the measured time.
  void fill(Tensor& x, std::int64_t rows, std::int64_t columns) { std::copy_n(data_of<float>(numbers_), rows * columns, shaped<float>(x, {rows, columns})); }
  void prepare(Point& point, const PassContext& pass) {
    fill(point.saved.input, pass.rows(), sizes_.hidden);
    point.prefix.resize(static_cast<std::size_t>(sizes_.layers));
    for (Tensor& cache : point.prefix) fill(cache, pass.batch * pass.length, 2 * sizes_.hidden);
  }

  const Sizes sizes_;
  Gpt<float> model_;
  Optimizer<float> optimizer_;
  Tensor gradient_, numbers_;
};

std::string slices_text(const std::vector<int>& slices) {
  return slices.size() <= 12 ? format_slices(slices) : std::to_string(slices.size()) + " slices, " + std::to_string(slices.front()) + " to " + std::to_string(slices.back()) + " tokens";
}

void print(std::FILE* out, const SliceTimes& times, const Sizes& s, double optimizer_us) {
  const int seq = static_cast<int>(s.seq), stages = static_cast<int>(s.stages), m = static_cast<int>(s.micro_batches);
  const double whole = times.pass_us(1, seq, 0);
  std::fprintf(out, "stage of %lld layers, hidden %lld: %.2f ms for %d tokens, %.2f ms for %lld; context model off by at most %.1f %%; optimizer %.2f ms\n",
               static_cast<long long>(s.layers), static_cast<long long>(s.hidden), whole * 1e-3, seq, times.pass_us(1, static_cast<int>(s.granularity), 0) * 1e-3,
               static_cast<long long>(s.granularity), 100 * times.largest_context_error(), optimizer_us * 1e-3);
  std::fprintf(out, "step of %d stages, %d micro-batch(es) of one sequence, T = sum t + (K - 1) max t:\n", stages, m);
  const auto line = [&](const char* what, const std::vector<int>& slices) {
    const double t = sliced_step(times.times(), std::vector<SlicedBatch>(static_cast<std::size_t>(m), {1, slices}), stages);
    std::fprintf(out, "  %-10s %10.2f ms  %s\n", what, t * 1e-3, slices_text(slices).c_str());
  };
  for (int n = 1; n <= 16; n *= 2)
    if (seq % n == 0 && seq / n >= s.granularity) line(n == 1 ? "whole" : "equal", uniform_slices(seq, n));
  line("best", best_batches_and_slices(times.times(), m, seq, stages, {static_cast<int>(s.granularity), 0}, 1).micro_batches.front().slices);
  std::fflush(out);
}

void run_cell(BenchContext& context, const Cell& cell) {
  const Sizes s = sizes_of(cell.parameters);
  if (NodeInfo::oversubscription() > 1)
    throw UsageError("bench_token_slices measures every rank as a stage with a core of its own; " + std::to_string(context.world.size()) + " ranks are too many for this machine");
  omp_set_num_threads(static_cast<int>(s.threads));  // not the whole machine, which a rank alone would take
  // Stages of a full pipeline compute at once: with several ranks all of them do, and the mean counts. One alone may be kept undisturbed.
  std::optional<RealTimePriority> undisturbed;
  if (context.world.size() == 1) undisturbed.emplace();
  Stage stage(s);
  std::vector<Point> points = points_of(s);
  std::vector<double> optimizer;
  for (std::int64_t round = 0; round <= s.rounds; ++round) {  // what disturbs the machine for a while meets all points
    for (Point& point : points) {
      context.world.barrier();
      stage.measure(point);
      if (round == 0) point.forward_us.clear(), point.backward_us.clear();
    }
    context.world.barrier();
    const double us = stage.optimizer_us();
    if (round > 0) optimizer.push_back(us);
    context.note(cell, "round " + std::to_string(round) + " measured");
  }
  const auto over_ranks = [&](const std::vector<double>& mine) {
    std::vector<double> mean(mine.size());
    context.world.all_reduce(mine.data(), mean.data(), static_cast<std::int64_t>(mine.size()), DType::f64, ReduceOp::sum)->wait();
    for (double& v : mean) v /= context.world.size();
    return summarize(mean);
  };
  Measured measured;
  std::vector<SliceSample> samples;
  const auto add_row = [&](const std::string& operation, const SliceSample& at, const Summary& us) {
    results::CellRow row;
    row.operation = operation;
    row.batch = at.batch, row.seq = at.tokens, row.hidden = s.hidden, row.layers = s.layers;
    row.threads = s.threads, row.dtype = "f32", row.source = "generated", row.compute = "real", row.oversubscription = NodeInfo::oversubscription();
    row.total_us = us.median, row.total_iqr_us = us.interquartile_range, row.repetitions = static_cast<std::int64_t>(us.count);
    measured.rows.push_back(row);
  };
  for (Point& point : points) {
    const Summary forward = over_ranks(point.forward_us), backward = over_ranks(point.backward_us);
    point.at.forward_us = forward.median, point.at.backward_us = backward.median;
    samples.push_back(point.at);
    const std::string after = " after " + std::to_string(point.at.context);
    add_row("forward" + after, point.at, forward);
    add_row("backward" + after, point.at, backward);
  }
  const Summary update = over_ranks(optimizer);
  add_row("optimizer", {}, update);
  if (context.world.rank() == 0) print(context.text, SliceTimes(samples), s, update.median);
  context.finish(cell, std::move(measured));
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_token_slices";
    program.summary = "time of a pipeline stage by slice of the sequence and context, and the best slices for a number of stages";
    program.options = {{"layers", "2", "layers of a stage"},
                       {"hidden", "256", "hidden size"},
                       {"heads", "8", "attention heads"},
                       {"batch", "1", "largest micro-batch that is measured, in sequences"},
                       {"seq", "512", "tokens of a sequence"},
                       {"granularity", "32", "slices are multiples of so many tokens"},
                       {"rounds", "7", "measurements of every slice; the median counts"},
                       {"threads", "1", "of every stage, as many as a rank of the training has"},
                       {"stages", "4", "stages of the pipeline that is predicted"},
                       {"micro-batches", "1", "micro-batches of one sequence in its step"}};
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
