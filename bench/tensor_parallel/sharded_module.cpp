#include "bench/tensor_parallel/sharded_module.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/random.h"
#include "kernels/nn/gelu.h"
#include "models/layers/grid_block.h"

namespace thinwire::bench {
namespace {

using Counts = std::map<std::string, TensorGrid<float>::Count>;

BlockConfig block_of(const SplitSizes& s) {
  return {s.hidden, s.heads, 1, 0.0, s.seed};
}

class GridUnit final : public ShardedModule<float> {
 public:
  GridUnit(Communicator& world, const GridShape& shape, const SplitSizes& s) : sizes_(s) {
    GridOptions options;
    options.comm_dtype = s.comm_dtype, options.gather = s.gather, options.compress = s.compress;
    check_grid(shape, s.to_split());
    grid_.emplace(world, shape, options, clock_);
    input = grid_activation(shape, world.rank());
    output = grid_activation(shape, world.rank(), s.unit == "linear");
    if (s.unit == "linear")
      linear_.emplace(*grid_, ProductSpec{"layer0.mlp.expand", 0, s.hidden, 4 * s.hidden, false, false, {"linear", "input gradient", "weight gradient"}},
                      s.seed, 0.02);
    else if (s.unit == "mlp")
      mlp_.emplace(*grid_, 0, block_of(s));
    else
      block_.emplace(*grid_, 0, block_of(s));
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
  void weights_changed() override { grid_->weights_changed(++changes_); }
  void set_compute(ComputeMode mode) override {
    clock_.set_mode(mode);
    grid_->set_compute(mode, 1);
  }
  void drain_link(LinkDrain* drain) override { grid_->drain_link(drain); }
  Counts take_counts() override {
    auto counts = grid_->counts();
    grid_->reset_counts();
    return counts;
  }

 private:
  const SplitSizes sizes_;
  ComputeClock clock_;
  std::optional<TensorGrid<float>> grid_;
  std::optional<GridLinear<float>> linear_;
  std::optional<GridMlp<float>> mlp_;
  std::optional<GridBlock<float>> block_;
  GridLinear<float>::Kept kept_;
  GridMlp<float>::Saved mlp_saved_;
  GridBlock<float>::Saved block_saved_;
  std::int64_t changes_ = 0;
};

/// Megatron-LM's column- and row-parallel pair; the linear alone is the column-parallel one. Without a group: one rank.
template <typename T>
class LineUnit final : public ShardedModule<T> {
 public:
  LineUnit(Communicator* group, const SplitSizes& s) : sizes_(s) {
    make_tensor(group, s);
    const int n = tensor_->size(), rank = tensor_->rank();
    if (s.unit == "layer") {
      block_.emplace(0, block_of(s), LayerRuntime<T>{&*tensor_, &clock_});
    } else {
      expand_.emplace(column_parallel("layer0.mlp.expand", s.hidden, 4 * s.hidden, n, rank), s.seed, 0.02);
      if (s.unit == "mlp") project_.emplace(row_parallel("layer0.mlp.projection", 4 * s.hidden, s.hidden, n, rank), s.seed, 0.02 / std::sqrt(2.0));
    }
    if (s.unit == "linear") this->output = column_parallel("", s.hidden, 4 * s.hidden, n, rank).output;
  }
  void forward(const T* x, T* y) override {
    const std::int64_t rows = sizes_.rows(), local = 4 * sizes_.hidden / tensor_->size();
    const PassContext pass = sizes_.pass();
    if (sizes_.unit == "linear") return clock_.run("linear", 0, 0, [&] { expand_->forward(rows, x, y); });
    if (sizes_.unit == "mlp") {
      T *expanded = shaped<T>(expanded_, {rows, local}), *activated = shaped<T>(activated_, {rows, local});
      clock_.run("mlp", 0, 0, [&] {
        expand_->forward(rows, x, expanded);
        nn::gelu_forward<T>(rows * local, expanded, activated);
        project_->partial(rows, activated, y);
      });
      tensor_->sum_output(pass, "mlp", 0, rows, sizes_.hidden, y, y);
      return clock_.run("add bias", 0, 0, [&] { project_->add_bias(rows, y); });
    }
    block_->forward(pass, x, saved_, work_, nullptr);
    std::copy_n(data_of<T>(saved_.output), saved_.output.elements(), y);
  }
  void backward(const T* x, const T* dy, T* dx) override {
    const std::int64_t rows = sizes_.rows(), h = sizes_.hidden, local = 4 * h / tensor_->size();
    const PassContext pass = sizes_.pass();
    if (sizes_.unit == "layer") {
      std::copy_n(dy, rows * h, dx);
      return block_->backward(pass, x, saved_, work_, dx);
    }
    const T* wide = dy;
    if (sizes_.unit == "mlp") {
      T *gradient = shaped<T>(gradient_, {rows, local}), *activated = shaped<T>(activated_, {rows, local});
      // Of a codec whose gradient is not that of the decoded sum; else dy itself, and dx is not touched.
      const T* own = tensor_->sum_output_backward(pass, "mlp", 0, rows, h, dy, dx, clock_);
      clock_.run("mlp backward", 0, 0, [&] {
        nn::gelu_forward<T>(rows * local, data_of<T>(expanded_), activated);
        project_->bias_gradient(rows, dy);
        project_->input_gradient(rows, own, gradient);
        project_->weight_gradient(rows, activated, own);
        nn::gelu_backward<T>(rows * local, data_of<T>(expanded_), gradient, gradient);
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
  ParameterList<T> parameters() override {
    ParameterList<T> list;
    if (block_) block_->collect(list);
    if (expand_) expand_->collect(list);
    if (project_) project_->collect(list);
    return list;
  }
  void weights_changed() override {}  // they do not travel
  void set_compute(ComputeMode mode) override {
    clock_.set_mode(mode);
    for (auto& pair : pairs_) pair->set_compute(mode, 1);
  }
  void drain_link(LinkDrain* drain) override {
    for (auto& pair : pairs_) pair->drain_link(drain);
  }
  std::map<std::string, typename TensorGrid<T>::Count> take_counts() override {
    std::vector<TrafficRecord> records;
    for (auto& pair : pairs_) pair->take_records(records);
    std::map<std::string, typename TensorGrid<T>::Count> counts;
    for (const TrafficRecord& r : records)
      counts[r.traffic == TrafficClass::tp_forward ? "all_reduce output" : "all_reduce input gradient"] = {r.traffic, r.operations, r.total};
    return counts;
  }

 private:
  void make_tensor(Communicator* group, const SplitSizes& s) {
    if (group == nullptr || group->size() == 1) {
      tensor_.emplace();
      return;
    }
    check_grid({GridKind::one_d, {group->size(), 1, 1}}, s.to_split());
    ChannelPairOptions pair;
    pair.comm_dtype = s.comm_dtype;
    for (const TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::tp_backward}) {
      const auto rule = s.compress.find(traffic);
      pairs_.push_back(std::make_unique<ChannelPair>(*group, traffic, rule == s.compress.end() ? CompressRule{} : rule->second, pair));
    }
    ChannelOptions control;
    control.comm_dtype = DType::f32;
    control_.emplace(*group, control);
    tensor_.emplace(*pairs_[0], *pairs_[1], *control_, *control_, 0, false);
  }

  const SplitSizes sizes_;
  ComputeClock clock_;
  std::vector<std::unique_ptr<ChannelPair>> pairs_;
  std::optional<Channel> control_;
  std::optional<TensorParallel<T>> tensor_;
  std::optional<Linear<T>> expand_, project_;
  std::optional<Block<T>> block_;
  typename Block<T>::Saved saved_;
  typename Block<T>::Workspace work_;
  Tensor expanded_, activated_, gradient_;
};

}  // namespace

std::string why_not(const GridShape& shape, const SplitSizes& s) {
  try {
    check_grid(shape, s.to_split());
    if (shape.kind != GridKind::one_d) check_grid_rules(s.compress, Form::fair);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

std::unique_ptr<ShardedModule<float>> make_split_unit(Communicator& world, const GridShape& shape, const SplitSizes& sizes) {
  if (shape.kind == GridKind::one_d) return std::make_unique<LineUnit<float>>(&world, sizes);
  return std::make_unique<GridUnit>(world, shape, sizes);
}

std::unique_ptr<ShardedModule<double>> make_serial_unit(const SplitSizes& sizes) {
  auto unit = std::make_unique<LineUnit<double>>(nullptr, sizes);
  for (Parameter<double>* p : unit->parameters())
    for (double& w : p->value.as<double>()) w = static_cast<double>(static_cast<float>(w));
  return unit;
}

Tensor random_shard(const SplitSizes& s, const char* name, std::int64_t columns, const Layout& layout) {
  const AxisRange samples = split_axis("batch", s.batch, layout.batch), part = split_axis("columns", columns, layout.hidden);
  Tensor x(Shape{samples.count * s.seq, part.count});
  const Random random(s.seed, name);
  float* to = x.as<float>().data();
  for (std::int64_t r = samples.begin * s.seq; r < (samples.begin + samples.count) * s.seq; ++r)
    for (std::int64_t c = part.begin; c < part.begin + part.count; ++c) *to++ = static_cast<float>(random.normal(static_cast<std::uint64_t>(r * columns + c)));
  return x;
}

}  // namespace thinwire::bench
