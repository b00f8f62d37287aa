// bench_tensor_parallel: a linear, an MLP or a Transformer layer split over all ranks in 1, 2, 2.5 or 3 dimensions: time of the forward and
// the backward pass, bytes per rank and collective, peak memory (docs/tensor-parallel.md). Every mode computes the same thing from the same
// weights and inputs, and is held against one rank doing it alone before it is timed.
#include <algorithm>
#include <cmath>

#include "bench/common/link_trust.h"
#include "bench/common/measure.h"
#include "bench/common/timing.h"
#include "collectives/link_drain.h"
#include "core/main_guard.h"
#include "core/memory_counter.h"
#include "core/random.h"
#include "kernels/nn/gelu.h"
#include "models/layers/grid_block.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

struct Sizes {
  std::string unit;
  std::int64_t batch = 0, seq = 0, hidden = 0, heads = 0;
  std::uint64_t seed = 0;
  DType wire = DType::f32;
  GatherPolicy gather = GatherPolicy::again;
  std::int64_t rows() const { return batch * seq; }
  std::int64_t out() const { return unit == "linear" ? 4 * hidden : hidden; }
  BlockConfig block() const { return {hidden, heads, 1, 0.0, seed}; }
  PassContext pass() const { return {batch, seq}; }
  GridSizes to_split() const { return {batch, hidden, unit == "layer" ? heads : 0}; }
};

/// Why a grid cannot split these sizes; empty where it can.
std::string why_not(const GridShape& shape, const Sizes& s) {
  try {
    check_grid(shape, s.to_split());
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

/// What is measured, on one kind of grid: shards in, shards out.
class Unit {
 public:
  virtual ~Unit() = default;
  virtual void forward(const float* x, float* y) = 0;
  /// The same memory may not serve dy and dx.
  virtual void backward(const float* x, const float* dy, float* dx) = 0;
  virtual ParameterList<float> parameters() = 0;
  virtual void set_compute(ComputeMode mode) = 0;
  virtual void drain_link(LinkDrain* drain) = 0;
  /// What was sent since the last call, by collective.
  virtual std::map<std::string, TensorGrid<float>::Count> take_counts() = 0;
  Layout input, output;
  int copies = 1, copies_of_output = 0;  ///< ranks that hold equal shards of the input, and of the output (0: as many)
};

class GridUnit final : public Unit {
 public:
  GridUnit(Communicator& world, const GridShape& shape, const Sizes& s) : sizes_(s) {
    GridOptions options;
    options.wire = s.wire, options.gather = s.gather;
    check_grid(shape, s.to_split());
    grid_.emplace(world, shape, options, clock_);
    input = grid_activation(shape, world.rank());
    output = grid_activation(shape, world.rank(), s.unit == "linear");
    if (s.unit == "linear")
      linear_.emplace(*grid_, ProductSpec{"layer0.mlp.expand", 0, s.hidden, 4 * s.hidden, false, false, {"linear", "input gradient", "weight gradient"}}, s.seed, 0.02);
    else if (s.unit == "mlp")
      mlp_.emplace(*grid_, 0, s.block());
    else
      block_.emplace(*grid_, 0, s.block());
  }
  void forward(const float* x, float* y) override {
    const PassContext pass = sizes_.pass();
    if (linear_) return linear_->forward(pass, x, y, &kept_);
    if (mlp_) return mlp_->forward(pass, x, y, mlp_saved_);
    block_->forward(pass, x, block_saved_);
    std::copy_n(data_of<float>(block_saved_.output), block_saved_.output.elements(), y);
  }
  void backward(const float* x, const float* dy, float* dx) override {
    const PassContext pass = sizes_.pass();
    if (linear_) return linear_->backward(pass, x, dy, dx, &kept_);
    if (mlp_) return mlp_->backward(pass, x, dy, dx, mlp_saved_);
    std::copy_n(dy, block_saved_.output.elements(), dx);
    block_->backward(pass, x, block_saved_, dx);
  }
  ParameterList<float> parameters() override {
    ParameterList<float> list;
    if (linear_) linear_->collect(list);
    if (mlp_) mlp_->collect(list);
    if (block_) block_->collect(list);
    return list;
  }
  void set_compute(ComputeMode mode) override {
    clock_.set_mode(mode);
    grid_->set_compute(mode, 1);
  }
  void drain_link(LinkDrain* drain) override { grid_->drain_link(drain); }
  std::map<std::string, TensorGrid<float>::Count> take_counts() override {
    auto counts = grid_->counts();
    grid_->reset_counts();
    return counts;
  }

 private:
  const Sizes sizes_;
  ComputeClock clock_;
  std::optional<TensorGrid<float>> grid_;
  std::optional<GridLinear<float>> linear_;
  std::optional<GridMlp<float>> mlp_;
  std::optional<GridBlock<float>> block_;
  GridLinear<float>::Kept kept_;
  GridMlp<float>::Saved mlp_saved_;
  GridBlock<float>::Saved block_saved_;
};

/// Megatron-LM's column- and row-parallel pair; the linear alone is the column-parallel one.
class LineUnit final : public Unit {
 public:
  LineUnit(Communicator& group, const Sizes& s) : sizes_(s) {
    make_tensor(group, s);
    const int n = tensor_->size(), rank = tensor_->rank();
    copies = n;
    if (s.unit == "layer") {
      block_.emplace(0, s.block(), LayerRuntime<float>{&*tensor_, &clock_});
    } else {
      expand_.emplace(column_parallel("layer0.mlp.expand", s.hidden, 4 * s.hidden, n, rank), s.seed, 0.02);
      if (s.unit == "mlp") project_.emplace(row_parallel("layer0.mlp.projection", 4 * s.hidden, s.hidden, n, rank), s.seed, 0.02 / std::sqrt(2.0));
    }
    if (s.unit == "linear") output = column_parallel("", s.hidden, 4 * s.hidden, n, rank).output, copies_of_output = 1;
  }
  void forward(const float* x, float* y) override {
    const std::int64_t rows = sizes_.rows(), local = 4 * sizes_.hidden / tensor_->size();
    const PassContext pass = sizes_.pass();
    if (sizes_.unit == "linear") return clock_.run("linear", 0, 0, [&] { expand_->forward(rows, x, y); });
    if (sizes_.unit == "mlp") {
      float *expanded = shaped<float>(expanded_, {rows, local}), *activated = shaped<float>(activated_, {rows, local});
      clock_.run("mlp", 0, 0, [&] {
        expand_->forward(rows, x, expanded);
        nn::gelu_forward<float>(rows * local, expanded, activated);
        project_->partial(rows, activated, y);
      });
      tensor_->sum_output(pass, "mlp", 0, rows, sizes_.hidden, y, y);
      return clock_.run("add bias", 0, 0, [&] { project_->add_bias(rows, y); });
    }
    block_->forward(pass, x, saved_, work_, nullptr);
    std::copy_n(data_of<float>(saved_.output), saved_.output.elements(), y);
  }
  void backward(const float* x, const float* dy, float* dx) override {
    const std::int64_t rows = sizes_.rows(), h = sizes_.hidden, local = 4 * h / tensor_->size();
    const PassContext pass = sizes_.pass();
    if (sizes_.unit == "layer") {
      std::copy_n(dy, rows * h, dx);
      return block_->backward(pass, x, saved_, work_, dx);
    }
    const float* wide = dy;
    if (sizes_.unit == "mlp") {
      float *gradient = shaped<float>(gradient_, {rows, local}), *activated = shaped<float>(activated_, {rows, local});
      clock_.run("mlp backward", 0, 0, [&] {
        nn::gelu_forward<float>(rows * local, data_of<float>(expanded_), activated);
        project_->bias_gradient(rows, dy);
        project_->input_gradient(rows, dy, gradient);
        project_->weight_gradient(rows, activated, dy);
        nn::gelu_backward<float>(rows * local, data_of<float>(expanded_), gradient, gradient);
      });
      wide = gradient;
    }
    clock_.run("input gradient", 0, 0, [&] { expand_->input_gradient(rows, wide, dx); });
    Operation sum = tensor_->start_sum_input_gradient(pass, "expand", 0, rows, h, dx, dx);
    clock_.run("weight gradient", 0, 0, [&] {
      expand_->weight_gradient(rows, x, wide);
      expand_->bias_gradient(rows, wide);
    });
    tensor_->finish_sum_input_gradient(std::move(sum), pass, "expand", 0, rows, h, dx);
  }
  ParameterList<float> parameters() override {
    ParameterList<float> list;
    if (block_) block_->collect(list);
    if (expand_) expand_->collect(list);
    if (project_) project_->collect(list);
    return list;
  }
  void set_compute(ComputeMode mode) override {
    clock_.set_mode(mode);
    for (auto& lane : lanes_) lane->set_compute(mode, 1);
  }
  void drain_link(LinkDrain* drain) override {
    for (auto& lane : lanes_) lane->drain_link(drain);
  }
  std::map<std::string, TensorGrid<float>::Count> take_counts() override {
    std::vector<TrafficRecord> records;
    for (auto& lane : lanes_) lane->take_records(records);
    std::map<std::string, TensorGrid<float>::Count> counts;
    for (const TrafficRecord& r : records)
      counts[r.traffic == TrafficClass::tp_forward ? "all_reduce output" : "all_reduce input gradient"] = {r.traffic, r.operations, r.total};
    return counts;
  }

 private:
  void make_tensor(Communicator& group, const Sizes& s) {
    check_grid({GridKind::one_d, {group.size(), 1, 1}}, s.to_split());
    if (group.size() == 1) {
      tensor_.emplace();
    } else {
      LaneOptions lane;
      lane.wire = s.wire;
      for (const TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::tp_backward})
        lanes_.push_back(std::make_unique<TrafficLane>(group, traffic, CompressRule{}, lane));
      ChannelOptions control;
      control.wire = DType::f32;
      control_.emplace(group, control);
      tensor_.emplace(*lanes_[0], *lanes_[1], *control_, *control_, 0, false);
    }
  }

  const Sizes sizes_;
  ComputeClock clock_;
  std::vector<std::unique_ptr<TrafficLane>> lanes_;
  std::optional<Channel> control_;
  std::optional<TensorParallel<float>> tensor_;
  std::optional<Linear<float>> expand_, project_;
  std::optional<Block<float>> block_;
  Block<float>::Saved saved_;
  Block<float>::Workspace work_;
  Tensor expanded_, activated_, gradient_;
};

/// The part of a random [rows, columns] tensor that `layout` gives a rank.
Tensor random_shard(const Sizes& s, const char* name, std::int64_t columns, const Layout& layout) {
  const AxisRange samples = split_axis("batch", s.batch, layout.batch), part = split_axis("columns", columns, layout.hidden);
  Tensor x(Shape{samples.count * s.seq, part.count});
  const Random random(s.seed, name);
  float* to = x.as<float>().data();
  for (std::int64_t r = samples.begin * s.seq; r < (samples.begin + samples.count) * s.seq; ++r)
    for (std::int64_t c = part.begin; c < part.begin + part.count; ++c) *to++ = static_cast<float>(random.normal(static_cast<std::uint64_t>(r * columns + c)));
  return x;
}

/// Of output, input gradient and parameter gradients: sum of squares, and sum weighted by random numbers, which sees what lies where.
struct Fingerprint {
  double output[2] = {0, 0}, input_gradient[2] = {0, 0}, weights[2] = {0, 0};
};
void add(double* sums, double value, double probe) { sums[0] += value * value, sums[1] += value * probe; }

void add_activation(double* sums, const Sizes& s, const Tensor& mine, std::int64_t columns, const Layout& layout, int copies) {
  const Tensor probe = random_shard(s, "probe", columns, layout);
  double own[2] = {0, 0};
  for (std::size_t i = 0; i < mine.as<float>().size(); ++i) add(own, mine.as<float>()[i], probe.as<float>()[i]);
  for (int k = 0; k < 2; ++k) sums[k] += own[k] / copies;
}

/// Runs a unit once, forward and backward, and says what came out, this rank's share.
Fingerprint run_once(Unit& unit, const Sizes& s, const Tensor& x, Tensor& y, const Tensor& dy, Tensor& dx) {
  for (Parameter<float>* p : unit.parameters()) p->gradient.fill_zero();
  unit.forward(data_of<float>(x), y.as<float>().data());
  unit.backward(data_of<float>(x), data_of<float>(dy), dx.as<float>().data());
  Fingerprint f;
  add_activation(f.output, s, y, s.out(), unit.output, unit.copies_of_output ? unit.copies_of_output : unit.copies);
  add_activation(f.input_gradient, s, dx, s.hidden, unit.input, unit.copies);
  for (const Parameter<float>* p : unit.parameters()) {
    if (!p->layout.counts_in_norm()) continue;
    const Random random(s.seed, "probe of " + p->name());
    for (std::int64_t i = 0; i < p->elements(); ++i) add(f.weights, p->g()[i], random.normal(static_cast<std::uint64_t>(p->layout.global_index(i))));
  }
  return f;
}

/// One rank alone; the others wait.
Fingerprint reference_of(Communicator& world, const Sizes& s) {
  const auto alone = world.split(world.rank(), 0);
  Fingerprint f;
  if (world.rank() == 0) {
    LineUnit unit(*alone, s);
    const Tensor x = random_shard(s, "x", s.hidden, unit.input), dy = random_shard(s, "dy", s.out(), unit.output);
    Tensor y(dy.shape()), dx(x.shape());
    f = run_once(unit, s, x, y, dy, dx);
  }
  world.broadcast(&f, sizeof f, 0)->wait();
  return f;
}

void compare(Communicator& world, const std::string& mode, const Sizes& s, const Fingerprint& mine, const Fingerprint& reference) {
  Fingerprint all;
  world.all_reduce(&mine, &all, sizeof all / sizeof(double), DType::f64, ReduceOp::sum)->wait();
  const double tolerance = s.wire == DType::f32 ? 1e-4 : 3e-2;
  const auto test = [&](const char* what, const double* a, const double* b) {
    const double squares = std::abs(a[0] - b[0]) / b[0], weighted = std::abs(a[1] - b[1]) / std::sqrt(b[0]);
    if (!(squares <= 2 * tolerance && weighted <= 10 * tolerance))
      throw WrongResult(mode + ": the " + what + " is not that of one rank (squared norm off by " + std::to_string(squares) + ", weighted sum by " +
                        std::to_string(weighted) + " of the norm); the row is not timed");
  };
  test("output", all.output, reference.output);
  test("input gradient", all.input_gradient, reference.input_gradient);
  test("weights' gradient", all.weights, reference.weights);
}

/// Mean of the received and sent bytes over ranks, and the most that one sends.
void fill_bytes(Communicator& world, results::CellRow& row, const OperationReport& mine) {
  const std::int64_t own[4] = {mine.dense_bytes, mine.payload_bytes, mine.link_bytes, mine.received_bytes};
  std::int64_t sums[4], most = 0;
  world.all_reduce(own, sums, 4, DType::i64, ReduceOp::sum)->wait();
  world.all_reduce(&mine.link_bytes, &most, 1, DType::i64, ReduceOp::max)->wait();
  row.dense_bytes = sums[0] / world.size(), row.payload_bytes = sums[1] / world.size(), row.link_bytes = sums[2] / world.size();
  row.received_bytes = sums[3] / world.size(), row.link_bytes_max = most;
}

class ModeRun {
 public:
  ModeRun(BenchContext& context, const Cell& cell, const GridShape& shape, const Sizes& s) : context_(context), world_(context.world), cell_(cell), shape_(shape), sizes_(s) {
    common_.cell_id = cell.cell_id;
    common_.method = shape.describe() + (shape.kind == GridKind::three_d ? ", gather " + name_of(s.gather) : "");
    common_.codec = "none";
    common_.dtype = name_of(s.wire);
    common_.tensor = s.unit;
    common_.source = "generated";
    common_.tp = world_.size(), common_.batch = s.batch, common_.seq = s.seq, common_.hidden = s.hidden;
  }

  results::CellRow skipped(const std::string& reason) const {
    results::CellRow row = common_;
    row.operation = "step";
    row.status = results::name_of(results::Status::skipped);
    row.reason = reason;
    return row;
  }

  void run(const Fingerprint& reference, LinkDrain* drain, Measured& measured) {
    const std::int64_t before = buffer_bytes();
    std::unique_ptr<Unit> unit;
    if (shape_.kind == GridKind::one_d)
      unit = std::make_unique<LineUnit>(world_, sizes_);
    else
      unit = std::make_unique<GridUnit>(world_, shape_, sizes_);
    const Tensor x = random_shard(sizes_, "x", sizes_.hidden, unit->input), dy = random_shard(sizes_, "dy", sizes_.out(), unit->output);
    Tensor y(dy.shape()), dx(x.shape());
    compare(world_, common_.method, sizes_, run_once(*unit, sizes_, x, y, dy, dx), reference);

    // Bytes of one pass each, and the memory of both: weights and gradients, activations in and out, all buffers.
    reset_buffer_bytes_peak();
    (void)unit->take_counts();
    const auto forward = [&] { unit->forward(data_of<float>(x), y.as<float>().data()); };
    const auto backward = [&] { unit->backward(data_of<float>(x), data_of<float>(dy), dx.as<float>().data()); };
    forward();
    add_collectives("forward", unit->take_counts(), measured);
    backward();
    add_collectives("backward", unit->take_counts(), measured);
    std::int64_t peak = buffer_bytes_peak() - before, most = 0;
    world_.all_reduce(&peak, &most, 1, DType::i64, ReduceOp::max)->wait();
    results::CellRow memory = common_;
    memory.operation = "peak memory";
    memory.dense_bytes = most;
    measured.rows.push_back(memory);
    if (!context_.check_only) time(*unit, forward, backward, drain, measured);
  }

 private:
  void add_collectives(const std::string& pass, const std::map<std::string, TensorGrid<float>::Count>& counts, Measured& measured) {
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
      fill_bytes(world_, row, count.sum);
      measured.rows.push_back(row);
      total.dense_bytes += count.sum.dense_bytes, total.payload_bytes += count.sum.payload_bytes, total.link_bytes += count.sum.link_bytes;
      total.received_bytes += count.sum.received_bytes;
    }
    results::CellRow row = common_;
    row.operation = pass;
    fill_bytes(world_, row, total);
    measured.rows.push_back(row);
  }

  /// Sorted union over ranks of lines.
  std::vector<std::string> labels_of_all(const std::string& mine) {
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

  // With more ranks than cores every product is measured alone and then replayed as a wait (docs/measuring.md).
  void time(Unit& unit, const std::function<void()>& forward, const std::function<void()>& backward, LinkDrain* drain, Measured& measured) {
    const ComputePlan plan = compute_plan(world_);
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
    for (RepetitionLoop loop(stop_rule(cell_.parameters), &world_); loop.next();) {
      double step = 0;
      const bool counts = !loop.warming_up();
      for (int pass = 0; pass < 2; ++pass) {
        auto one = lap(world_, [&] {
          pass == 0 ? forward() : backward();
          OperationReport report;
          for (const auto& [label, count] : unit.take_counts()) {
            report.dense_bytes += count.sum.dense_bytes, report.payload_bytes += count.sum.payload_bytes;
            report.link_bytes += count.sum.link_bytes, report.received_bytes += count.sum.received_bytes;
          }
          return report;
        });
        double slowest = 0;
        for (const OperationReport& r : one) slowest = std::max(slowest, r.total_us);
        step += slowest;
        if (counts) laps[pass].push_back(std::move(one));
      }
      loop.add(step);
    }
    unit.drain_link(nullptr);
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

  BenchContext& context_;
  Communicator& world_;
  const Cell& cell_;
  const GridShape shape_;
  const Sizes sizes_;
  results::CellRow common_;
};

void run_cell(BenchContext& context, const Cell& cell) {
  const CellParameters& p = cell.parameters;
  Sizes s;
  s.unit = p.text("unit");
  if (s.unit != "linear" && s.unit != "mlp" && s.unit != "layer") throw UsageError("--unit " + s.unit + ": linear, mlp or layer");
  s.batch = p.integer("batch"), s.seq = p.integer("seq"), s.hidden = p.integer("hidden"), s.heads = p.integer("heads");
  for (const auto& [name, value] : {std::pair{"batch", s.batch}, {"seq", s.seq}, {"hidden", s.hidden}, {"heads", s.heads}})
    if (value < 1) throw UsageError(std::string("--") + name + " is " + std::to_string(value) + "; it must be at least 1");
  if (s.hidden % s.heads != 0) throw UsageError("--hidden " + std::to_string(s.hidden) + " is no multiple of --heads " + std::to_string(s.heads));
  s.seed = static_cast<std::uint64_t>(p.integer("seed"));
  s.wire = parse_dtype(p.text("wire"));
  s.gather = parse_gather_policy(p.text("gather"));
  const std::string mode = p.text("mode");
  const std::vector<GridShape> shapes = mode == "all" ? grids_of(context.world.size()) : std::vector{parse_grid(mode, context.world.size())};
  const Fingerprint reference = reference_of(context.world, s);
  Measured measured;
  const std::unique_ptr<LinkDrain> drain = LinkDrain::open(context.link);
  for (const GridShape& shape : shapes) {
    ModeRun run(context, cell, shape, s);
    const std::string reason = mode == "all" ? why_not(shape, s) : "";
    if (reason.empty())
      run.run(reference, drain.get(), measured);
    else
      measured.rows.push_back(run.skipped(reason));
  }
  LinkTrust(context).judge(measured);
  context.finish(cell, std::move(measured));
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_tensor_parallel";
    program.summary = "a linear, an MLP or a Transformer layer split over the ranks in 1, 2, 2.5 or 3 dimensions";
    program.options = {{"mode", "all", "1d | 2d | 2.5d:depth=D | 3d | 3d:sides=XxYxZ; all: every grid that the ranks make"},
                       {"unit", "layer", "linear (hidden -> 4 hidden) | mlp | layer (a Transformer block)"},
                       {"batch", "8", "sequences, over all ranks"},
                       {"seq", "64", "tokens of a sequence"},
                       {"hidden", "256", "hidden size"},
                       {"heads", "8", "attention heads (layer)"},
                       {"wire", "f32", "f32 | f16 | bf16: type of dense transfers"},
                       {"gather", "again", "3-D: again | again-literally | keep what the backward pass needs gathered"}};
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
      for (const Cell& cell : cells) {
        context.start(cell);
        guarded(context, cell, [&] { run_cell(context, cell); });
      }
    };
    return run_bench(count, values, program);
  });
}
