// SUMMA (van de Geijn and Watts 1997) as in Optimus and Tesseract: the layout of every matrix is block (row, column). Three products:
//   AB   for t: broadcast A(row, t) along the row and B(t, column) down the column;    C += A_t B_t
//   ABT  for t: broadcast B(t, column) down the column;  P = A B_t^T;  reduce P along the row to (row, t)
//   ATB  for t: broadcast A(row, t) along the row;       P = A_t^T B;  reduce P down the column to (t, column)
// The broadcast of block t + 1 travels while block t is multiplied; a partial product travels while the next is computed. In 2.5-D
// every depth layer does so with rows of its own, and the gradient of the weight is summed over the depth.
#include "kernels/nn/elementwise.h"
#include "models/layers/grid_product.h"

namespace thinwire {
namespace {

using nn::Transpose;

template <typename T>
class Product2d final : public GridProduct<T> {
  using Lease = GridScratch::Lease<T>;
  using Pending = typename TensorGrid<T>::Pending;
  struct Matrix {
    const T* data;
    std::int64_t rows, columns;
    std::int64_t elements() const { return rows * columns; }
  };
  /// How an operand or a result travels.
  struct Way {
    GridUse use;
    const char* label;
  };

 public:
  Product2d(TensorGrid<T>& grid, const ProductSpec& spec) : grid_(grid), spec_(spec), q_(grid.size(along_row)) {
    const std::string name = spec.tensor;
    in_ = split_axis("columns of the input of " + name, spec.in, {grid.group(along_row)}).count;
    out_ = split_axis("columns of the output of " + name, spec.out, {grid.group(along_row)}).count;
  }

  void forward(const PassContext& pass, const T* x, const T* w, T* y, typename GridProduct<T>::Kept*) override {
    const Way input{GridUse::activation, "broadcast input"}, weight{GridUse::weight, "broadcast weight"};
    if (spec_.transposed)
      abt(pass, spec_.sections.forward, {x, rows(pass), in_}, {w, out_, in_}, weight, {GridUse::activation, "reduce output"}, y);
    else
      ab(pass, spec_.sections.forward, {x, rows(pass), in_}, input, {w, in_, out_}, weight, y);
  }

  // The weight's gradient first: in 2.5-D its sum over the depth travels while the input's gradient is computed.
  void backward(const PassContext& pass, const T* x, const T* w, const T* dy, T* dx, T* dw, typename GridProduct<T>::Kept*) override {
    const Way weight{GridUse::weight, "broadcast weight again"}, input{GridUse::activation, "broadcast input again"},
        output{GridUse::gradient, "broadcast output gradient"}, output_again{GridUse::gradient, "broadcast output gradient again"},
        to_weight{GridUse::weight_gradient, "reduce weight gradient"}, to_input{GridUse::gradient, "reduce input gradient"};
    const Matrix X{x, rows(pass), in_}, dY{dy, rows(pass), out_};
    const std::int64_t elements = in_ * out_;
    Lease mine = grid_.scratch().template borrow<T>(elements);
    if (spec_.transposed)
      atb(pass, spec_.sections.weight_gradient, dY, output_again, X, to_weight, mine.data());
    else
      atb(pass, spec_.sections.weight_gradient, X, input, dY, to_weight, mine.data());
    Pending depth;
    if (grid_.size(over_depth) > 1)
      depth = grid_.all_reduce({GridUse::weight_gradient, over_depth, "all_reduce weight gradient over depth", spec_.tensor, spec_.layer, pass},
                               spec_.transposed ? out_ : in_, spec_.transposed ? in_ : out_, mine.data());
    if (spec_.transposed)
      ab(pass, spec_.sections.input_gradient, dY, output, {w, out_, in_}, weight, dx);
    else
      abt(pass, spec_.sections.input_gradient, dY, {w, in_, out_}, weight, to_input, dx);
    grid_.wait(std::move(depth));
    grid_.clock().run("add weight gradient", spec_.layer, pass.micro, [&] { nn::add_into<T>(elements, mine.data(), dw); });
  }

 private:
  std::int64_t rows(const PassContext& pass) const {
    return split_axis("rows of " + spec_.tensor, pass.batch, grid_activation(grid_.shape(), grid_.rank()).batch).count * pass.seq;
  }

  /// A line's block t, broadcast into a buffer of its own. With one rank on the line the block itself.
  struct Panel {
    Lease buffer;
    const T* data = nullptr;
    Pending pending;
  };
  Panel post(const PassContext& pass, const Matrix& block, const Way& way, int axis, int t) {
    Panel panel;
    if (q_ == 1) {
      panel.data = block.data;
      return panel;
    }
    panel.buffer = grid_.scratch().template borrow<T>(block.elements());
    if (grid_.index(axis) == t) copy_elements(panel.buffer.data(), block.data, static_cast<std::size_t>(block.elements()));
    panel.data = panel.buffer.data();
    panel.pending = grid_.broadcast({way.use, axis, way.label, spec_.tensor + "." + std::to_string(t), spec_.layer, pass}, block.rows,
                                    block.columns, panel.buffer.data(), t);
    return panel;
  }

  /// C [a.rows, b.columns] = sum over t of A_t B_t.
  void ab(const PassContext& pass, const char* section, const Matrix& a, const Way& a_way, const Matrix& b, const Way& b_way, T* c) {
    Panel next_a = post(pass, a, a_way, along_row, 0), next_b = post(pass, b, b_way, down_column, 0);
    for (int t = 0; t < q_; ++t) {
      Panel at = std::move(next_a), bt = std::move(next_b);
      grid_.wait(std::move(at.pending));
      grid_.wait(std::move(bt.pending));
      if (t + 1 < q_) next_a = post(pass, a, a_way, along_row, t + 1), next_b = post(pass, b, b_way, down_column, t + 1);
      grid_.clock().run(section, spec_.layer, pass.micro, [&] {
        local_product(spec_.compute, Transpose::no, Transpose::no, a.rows, b.columns, a.columns, at.data, a.columns, bt.data, b.columns,
                      t == 0 ? T{0} : T{1}, c);
      });
    }
  }

  /// C [a.rows, b.rows]: block t of the sums goes to column t of the grid.
  void abt(const PassContext& pass, const char* section, const Matrix& a, const Matrix& b, const Way& b_way, const Way& c_way, T* c) {
    Panel next = post(pass, b, b_way, down_column, 0);
    sums(pass, along_row, a.rows, b.rows, c_way, c, [&](int t, T* partial) {
      Panel bt = std::move(next);
      grid_.wait(std::move(bt.pending));
      if (t + 1 < q_) next = post(pass, b, b_way, down_column, t + 1);
      grid_.clock().run(section, spec_.layer, pass.micro, [&] {
        local_product(spec_.compute, Transpose::no, Transpose::yes, a.rows, b.rows, a.columns, a.data, a.columns, bt.data, b.columns, T{0},
                      partial);
      });
    });
  }

  /// C [a.columns, b.columns]: block t of the sums goes to row t of the grid.
  void atb(const PassContext& pass, const char* section, const Matrix& a, const Way& a_way, const Matrix& b, const Way& c_way, T* c) {
    Panel next = post(pass, a, a_way, along_row, 0);
    sums(pass, down_column, a.columns, b.columns, c_way, c, [&](int t, T* partial) {
      Panel at = std::move(next);
      grid_.wait(std::move(at.pending));
      if (t + 1 < q_) next = post(pass, a, a_way, along_row, t + 1);
      grid_.clock().run(section, spec_.layer, pass.micro, [&] {
        local_product(spec_.compute, Transpose::yes, Transpose::no, a.columns, b.columns, a.rows, at.data, a.columns, b.data, b.columns, T{0},
                      partial);
      });
    });
  }

  /// Reduces the partial products that `multiply(t, partial)` makes to rank t of the line; two are in flight at most.
  template <typename Multiply>
  void sums(const PassContext& pass, int axis, std::int64_t rows, std::int64_t columns, const Way& way, T* c, Multiply&& multiply) {
    if (q_ == 1) return multiply(0, c);
    std::array<Lease, 2> partial;
    std::array<Pending, 2> pending;
    for (int t = 0; t < q_; ++t) {
      const auto slot = static_cast<std::size_t>(t % 2);
      grid_.wait(std::move(pending[slot]));
      pending[slot] = {};
      if (!partial[slot].data()) partial[slot] = grid_.scratch().template borrow<T>(rows * columns);
      multiply(t, partial[slot].data());
      pending[slot] = grid_.reduce({way.use, axis, way.label, spec_.tensor + "." + std::to_string(t), spec_.layer, pass}, rows, columns,
                                   partial[slot].data(), grid_.index(axis) == t ? c : nullptr, t);
    }
    for (Pending& p : pending) grid_.wait(std::move(p));
  }

  TensorGrid<T>& grid_;
  const ProductSpec spec_;
  int q_;
  std::int64_t in_, out_;  // columns of a shard
};

}  // namespace

template <typename T>
std::unique_ptr<GridProduct<T>> make_product_2d(TensorGrid<T>& grid, const ProductSpec& spec) {
  return std::make_unique<Product2d<T>>(grid, spec);
}
template std::unique_ptr<GridProduct<float>> make_product_2d<float>(TensorGrid<float>&, const ProductSpec&);
template std::unique_ptr<GridProduct<double>> make_product_2d<double>(TensorGrid<double>&, const ProductSpec&);

}  // namespace thinwire
