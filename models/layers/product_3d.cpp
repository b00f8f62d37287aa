// 3-D products (Bian et al. 2021): two all-gathers, a local product, a reduce-scatter. Every rank stores 1/(xyz) of each matrix; what is
// gathered lives as long as the product that needs it, unless the policy is to keep it for the backward pass.
#include "kernels/nn/elementwise.h"
#include "models/layers/grid_product.h"

namespace thinwire {
namespace {

using nn::Transpose;

template <typename T>
class Product3d final : public GridProduct<T> {
  using Lease = GridScratch::Lease<T>;
  using Pending = typename TensorGrid<T>::Pending;
  using Kept = typename GridProduct<T>::Kept;
  /// A gathered matrix: in a buffer, in what is kept, or the shard itself where the line has one rank.
  struct Whole {
    Lease buffer;
    const T* data = nullptr;
    Pending pending;
  };

 public:
  Product3d(TensorGrid<T>& grid, const ProductSpec& spec)
      : grid_(grid),
        spec_(spec),
        by_columns_(grid.options().cut == WeightCut::columns && !spec.transposed),
        input_axis_(spec.swapped ? 2 : 1),
        output_axis_(spec.swapped ? 1 : 2),
        x_(grid.size(weight_axis)) {
    in_ = split_axis("columns of the input of " + spec.tensor, spec.in, {grid.group(output_axis_)}).count;
    out_ = split_axis("columns of the output of " + spec.tensor, spec.out, {grid.group(input_axis_)}).count;
    w_rows_ = spec.transposed ? out_ : in_;
    w_columns_ = spec.transposed ? in_ : out_;
    (void)split_axis("a rank's block of " + spec.tensor, by_columns_ ? w_columns_ : w_rows_, {grid.group(weight_axis)});
  }

  void forward(const PassContext& pass, const T* x, const T* w, T* y, Kept* kept) override {
    const std::int64_t rows = gathered_rows(pass);
    const bool keeps = kept && grid_.options().gather == GatherPolicy::keep && pass.train;
    Whole input = gather(pass, GridUse::activation, input_axis_, "all_gather input", rows, in_, x, keeps ? &kept->input : nullptr);
    Whole weight = gather_weight(pass, "all_gather weight", w, keeps ? &kept->weight : nullptr);
    arrive(input);
    arrive_weight(pass, weight, keeps ? &kept->weight : nullptr);
    const bool whole = grid_.size(output_axis_) == 1;
    Lease partial = whole ? Lease() : grid_.scratch().template borrow<T>(rows * out_);
    grid_.clock().run(spec_.sections.forward, spec_.layer, pass.micro, [&] {
      local_product(spec_.compute, Transpose::no, spec_.transposed ? Transpose::yes : Transpose::no, rows, out_, in_, input.data, in_,
                    weight.data, w_columns_, T{0}, whole ? y : partial.data());
    });
    if (!whole)
      grid_.wait(grid_.reduce_scatter(message(pass, GridUse::activation, output_axis_, "reduce_scatter output"), rows, out_, partial.data(), y));
  }

  void backward(const PassContext& pass, const T* x, const T* w, const T* dy, T* dx, T* dw, Kept* kept) override {
    const std::int64_t rows = gathered_rows(pass);
    const GatherPolicy policy = grid_.options().gather;
    const bool has = kept && policy == GatherPolicy::keep && pass.train;
    Whole gradient = gather(pass, GridUse::gradient, output_axis_, "all_gather output gradient", rows, out_, dy, nullptr);
    Whole weight, input;
    if (has)
      weight.data = x_ == 1 ? w : data_of<T>(kept->weight);
    else
      weight = gather_weight(pass, "all_gather weight again", w, nullptr);
    arrive(gradient);
    if (!has) arrive_weight(pass, weight, nullptr);
    // The input travels while its gradient is computed.
    if (has)
      input.data = grid_.size(input_axis_) == 1 ? x : data_of<T>(kept->input);
    else
      input = gather(pass, GridUse::activation, input_axis_, "all_gather input again", rows, in_, x, nullptr);

    const bool whole_input = grid_.size(input_axis_) == 1;
    Lease partial = whole_input ? Lease() : grid_.scratch().template borrow<T>(rows * in_);
    grid_.clock().run(spec_.sections.input_gradient, spec_.layer, pass.micro, [&] {
      local_product(spec_.compute, Transpose::no, spec_.transposed ? Transpose::no : Transpose::yes, rows, in_, out_, gradient.data, out_,
                    weight.data, w_columns_, T{0}, whole_input ? dx : partial.data());
    });
    weight.buffer.release();
    Pending to_input;
    if (!whole_input)
      to_input = grid_.reduce_scatter(message(pass, GridUse::gradient, input_axis_, "reduce_scatter input gradient"), rows, in_, partial.data(), dx);
    if (policy == GatherPolicy::again_literally && grid_.size(output_axis_) > 1) {
      gradient.buffer.release();
      gradient = gather(pass, GridUse::gradient, output_axis_, "all_gather output gradient again", rows, out_, dy, nullptr);
      arrive(gradient);
    }
    arrive(input);
    weight_gradient(pass, rows, input.data, gradient.data, dw);
    grid_.wait(std::move(to_input));
  }

 private:
  typename TensorGrid<T>::Message message(const PassContext& pass, GridUse use, int axis, const char* label) const {
    return {use, axis, label, use == GridUse::weight && !spec_.weight_name.empty() ? spec_.weight_name : spec_.tensor, spec_.layer, pass};
  }
  /// Rows of a block that only the weight axis splits.
  std::int64_t gathered_rows(const PassContext& pass) const {
    (void)split_axis("batch of " + spec_.tensor, pass.batch, {grid_.group(weight_axis), grid_.group(input_axis_)});
    (void)split_axis("batch of " + spec_.tensor, pass.batch, {grid_.group(weight_axis), grid_.group(output_axis_)});
    return pass.batch / x_ * pass.seq;
  }

  Whole gather(const PassContext& pass, GridUse use, int axis, const char* label, std::int64_t rows, std::int64_t columns, const T* shard,
               Tensor* keep) {
    Whole whole;
    whole.data = shard;
    if (grid_.size(axis) == 1) return whole;
    T* to = nullptr;
    if (keep) {
      to = shaped<T>(*keep, {rows, columns});
    } else {
      whole.buffer = grid_.scratch().template borrow<T>(rows * columns);
      to = whole.buffer.data();
    }
    whole.pending = grid_.all_gather(message(pass, use, axis, label), rows, columns, shard, to);
    whole.data = to;
    return whole;
  }
  // Cut by columns the shards arrive one below the other, as x matrices [w_rows, w_columns / x].
  Whole gather_weight(const PassContext& pass, const char* label, const T* w, Tensor* keep) {
    if (!by_columns_) return gather(pass, GridUse::weight, weight_axis, label, w_rows_, w_columns_, w, keep);
    return gather(pass, GridUse::weight, weight_axis, label, x_ * w_rows_, w_columns_ / x_, w, nullptr);
  }
  void arrive(Whole& whole) { grid_.wait(std::move(whole.pending)); }
  void arrive_weight(const PassContext& pass, Whole& weight, Tensor* keep) {
    arrive(weight);
    if (!by_columns_ || x_ == 1) return;
    Lease joined = keep ? Lease() : grid_.scratch().template borrow<T>(w_rows_ * w_columns_);
    T* to = keep ? shaped<T>(*keep, {w_rows_, w_columns_}) : joined.data();
    const std::int64_t part = w_columns_ / x_;
    grid_.clock().run("join weight columns", spec_.layer, pass.micro, [&] {
      for (int i = 0; i < x_; ++i) nn::copy_rows<T>(w_rows_, part, weight.data + i * w_rows_ * part, part, to + i * part, w_columns_);
    });
    weight.buffer = std::move(joined);
    weight.data = to;
  }

  // W: X^T dY; E: dY^T X.
  void weight_gradient(const PassContext& pass, std::int64_t rows, const T* input, const T* gradient, T* dw) {
    const T* a = spec_.transposed ? gradient : input;
    const T* b = spec_.transposed ? input : gradient;
    const auto multiply = [&](T beta, T* to) {
      grid_.clock().run(spec_.sections.weight_gradient, spec_.layer, pass.micro, [&] {
        local_product(spec_.compute, Transpose::yes, Transpose::no, w_rows_, w_columns_, rows, a, w_rows_, b, w_columns_, beta, to);
      });
    };
    if (x_ == 1) return multiply(T{1}, dw);
    const std::int64_t elements = w_rows_ * w_columns_, part = w_columns_ / x_;
    Lease block = grid_.scratch().template borrow<T>(elements);
    multiply(T{0}, block.data());
    Lease shard = grid_.scratch().template borrow<T>(elements / x_);
    const auto to_shard = message(pass, GridUse::weight_gradient, weight_axis, "reduce_scatter weight gradient");
    if (by_columns_) {
      Lease cut = grid_.scratch().template borrow<T>(elements);
      grid_.clock().run("cut weight columns", spec_.layer, pass.micro, [&] {
        for (int i = 0; i < x_; ++i) nn::copy_rows<T>(w_rows_, part, block.data() + i * part, w_columns_, cut.data() + i * w_rows_ * part, part);
      });
      grid_.wait(grid_.reduce_scatter(to_shard, x_ * w_rows_, part, cut.data(), shard.data()));
    } else {
      grid_.wait(grid_.reduce_scatter(to_shard, w_rows_, w_columns_, block.data(), shard.data()));
    }
    grid_.clock().run("add weight gradient", spec_.layer, pass.micro, [&] { nn::add_into<T>(elements / x_, shard.data(), dw); });
  }

  TensorGrid<T>& grid_;
  const ProductSpec spec_;
  const bool by_columns_;
  const int input_axis_, output_axis_, x_;
  std::int64_t in_, out_, w_rows_, w_columns_;  // columns of the shards of input and output, extents of a gathered block of the weight
};

}  // namespace

template <typename T>
std::unique_ptr<GridProduct<T>> make_product_3d(TensorGrid<T>& grid, const ProductSpec& spec) {
  return std::make_unique<Product3d<T>>(grid, spec);
}
template std::unique_ptr<GridProduct<float>> make_product_3d<float>(TensorGrid<float>&, const ProductSpec&);
template std::unique_ptr<GridProduct<double>> make_product_3d<double>(TensorGrid<double>&, const ProductSpec&);

}  // namespace thinwire
