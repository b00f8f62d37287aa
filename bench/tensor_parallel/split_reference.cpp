#include "bench/tensor_parallel/split_reference.h"

#include <algorithm>

namespace thinwire::bench {

SplitReference::SplitReference(Communicator& world, const SplitSizes& sizes)
    : world_(world),
      sizes_(sizes),
      output_{"output", sizes.rows(), sizes.out(), {}},
      input_gradient_{"input gradient", sizes.rows(), sizes.hidden, {}} {
  if (world_.rank() != 0) return;
  const auto unit = make_serial_unit(sizes_);
  const auto wide = [&](const char* name, std::int64_t columns) {
    const Tensor narrow = random_shard(sizes_, name, columns, Layout::replicated());
    const auto values = narrow.as<float>();
    return std::vector<double>(values.begin(), values.end());
  };
  const std::vector<double> x = wide("x", sizes_.hidden), dy = wide("dy", sizes_.out());
  output_.values.resize(dy.size());
  input_gradient_.values.resize(x.size());
  unit->forward(x.data(), output_.values.data());
  unit->backward(x.data(), dy.data(), input_gradient_.values.data());
  for (Parameter<double>* p : unit->parameters()) {
    const auto gradient = p->gradient.as<double>();
    gradients_.push_back({p->name(), p->layout.global().rows(), p->layout.global().columns(), {gradient.begin(), gradient.end()}});
  }
}

// Whole rows travel, a few at a time: a rank never holds more of the reference than its own share and one piece.
std::vector<double> SplitReference::share(const Whole& whole, const AxisRange& rows, const AxisRange& columns) const {
  constexpr std::int64_t most = 1 << 18;  // elements of a piece
  const std::int64_t step = std::clamp<std::int64_t>(most / std::max<std::int64_t>(1, whole.columns), 1, std::max<std::int64_t>(1, whole.rows));
  std::vector<double> piece(static_cast<std::size_t>(step * whole.columns)), mine;
  mine.reserve(static_cast<std::size_t>(rows.count * columns.count));
  for (std::int64_t begin = 0; begin < whole.rows; begin += step) {
    const std::int64_t count = std::min(step, whole.rows - begin), elements = count * whole.columns;
    if (world_.rank() == 0) std::copy_n(whole.values.data() + begin * whole.columns, elements, piece.data());
    world_.broadcast(piece.data(), elements * static_cast<std::int64_t>(sizeof(double)), 0)->wait();
    for (std::int64_t r = std::max(begin, rows.begin); r < std::min(begin + count, rows.begin + rows.count); ++r) {
      const double* row = piece.data() + (r - begin) * whole.columns + columns.begin;
      mine.insert(mine.end(), row, row + columns.count);
    }
  }
  return mine;
}

ErrorMetrics SplitReference::activation_error(const Whole& whole, const Tensor& mine, const Layout& layout) const {
  const AxisRange samples = split_axis("batch", sizes_.batch, layout.batch), columns = split_axis("columns", whole.columns, layout.hidden);
  const std::vector<double> reference = share(whole, {samples.begin * sizes_.seq, samples.count * sizes_.seq}, columns);
  return error_metrics_over_ranks(world_, mine.as<float>(), reference);
}

SplitErrors SplitReference::errors_of(ShardedModule<float>& unit, const Tensor& x, Tensor& y, const Tensor& dy, Tensor& dx) const {
  const ParameterList<float> parameters = unit.parameters();
  for (Parameter<float>* p : parameters) p->gradient.fill_zero();
  unit.forward(data_of<float>(x), y.as<float>().data());
  unit.backward(data_of<float>(x), data_of<float>(dy), dx.as<float>().data());
  SplitErrors errors;
  errors.output = activation_error(output_, y, unit.output);
  errors.input_gradient = activation_error(input_gradient_, dx, unit.input);
  ErrorSums weights;
  for (const Parameter<float>* p : parameters) {
    // All ranks list the same parameters, with nothing of one that lies elsewhere; the reference has them in the same order.
    Whole whole{p->name(), p->layout.global().rows(), p->layout.global().columns(), {}};
    const Whole* from = &whole;
    if (world_.rank() == 0) {
      const auto found = std::find_if(gradients_.begin(), gradients_.end(), [&](const Whole& w) { return w.name == p->name(); });
      if (found == gradients_.end()) throw WrongResult("one rank alone has no parameter " + p->name());
      from = &*found;
    }
    const std::vector<double> reference = share(*from, p->layout.rows(), p->layout.columns());
    if (p->layout.counts_in_norm()) weights.add(p->gradient.as<float>(), reference);
  }
  errors.weight_gradient = weights.metrics_over_ranks(world_);
  return errors;
}

}  // namespace thinwire::bench
