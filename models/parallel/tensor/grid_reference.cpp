#include "models/parallel/tensor/grid_reference.h"

#include <algorithm>

#include "core/random.h"

namespace thinwire::reference {

Whole zeros(std::int64_t rows, std::int64_t columns) { return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))}; }

Whole random_matrix(std::uint64_t seed, const std::string& name, std::int64_t rows, std::int64_t columns) {
  const Random random(seed, name);
  Whole m = zeros(rows, columns);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = random.normal(i);
  return m;
}

Whole transposed(const Whole& a) {
  Whole t = zeros(a.columns, a.rows);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) t.at(c, r) = a.at(r, c);
  return t;
}

Whole product(const Whole& a, const Whole& b) {
  Whole c = zeros(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Whole column_sums(const Whole& a) {
  Whole s = zeros(1, a.columns);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) s.at(0, c) += a.at(r, c);
  return s;
}

// dx = (g - mean(g) - xhat mean(g xhat)) / sigma with g = gamma dy, means over the row.
Normed layernorm(const Whole& x, const Whole& gamma, const Whole& beta, const Whole& dy, double epsilon) {
  Normed out{zeros(x.rows, x.columns), zeros(x.rows, x.columns), zeros(1, x.columns), zeros(1, x.columns)};
  const double h = static_cast<double>(x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
    for (std::int64_t c = 0; c < x.columns; ++c) mean += x.at(r, c) / h;
    for (std::int64_t c = 0; c < x.columns; ++c) variance += (x.at(r, c) - mean) * (x.at(r, c) - mean) / h;
    const double sigma = std::sqrt(variance + epsilon);
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const double hat = (x.at(r, c) - mean) / sigma, g = gamma.at(0, c) * dy.at(r, c);
      out.y.at(r, c) = gamma.at(0, c) * hat + beta.at(0, c);
      out.dgamma.at(0, c) += dy.at(r, c) * hat, out.dbeta.at(0, c) += dy.at(r, c);
      mean_g += g / h, mean_gx += g * hat / h;
    }
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const double hat = (x.at(r, c) - mean) / sigma, g = gamma.at(0, c) * dy.at(r, c);
      out.dx.at(r, c) = (g - mean_g - hat * mean_gx) / sigma;
    }
  }
  return out;
}

Loss cross_entropy(const Whole& logits, const std::vector<std::int32_t>& targets) {
  Loss loss{0, zeros(logits.rows, logits.columns)};
  const double rows = static_cast<double>(logits.rows);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    double top = logits.at(r, 0), sum = 0;
    for (std::int64_t c = 1; c < logits.columns; ++c) top = std::max(top, logits.at(r, c));
    for (std::int64_t c = 0; c < logits.columns; ++c) sum += std::exp(logits.at(r, c) - top);
    const std::int64_t target = targets[static_cast<std::size_t>(r)];
    loss.mean += (std::log(sum) + top - logits.at(r, target)) / rows;
    for (std::int64_t c = 0; c < logits.columns; ++c)
      loss.gradient.at(r, c) = (std::exp(logits.at(r, c) - top) / sum - (c == target ? 1.0 : 0.0)) / rows;
  }
  return loss;
}

std::vector<double> shard(const Whole& m, const Layout& layout, std::int64_t seq) {
  const AxisRange samples = split_axis("batch", m.rows / seq, layout.batch), columns = split_axis("columns", m.columns, layout.hidden);
  std::vector<double> part;
  for (std::int64_t r = samples.begin * seq; r < (samples.begin + samples.count) * seq; ++r)
    for (std::int64_t c = columns.begin; c < columns.begin + columns.count; ++c) part.push_back(m.at(r, c));
  return part;
}

std::vector<double> shard(const Whole& m, const ParameterLayout& layout) {
  std::vector<double> part;
  for (std::int64_t i = 0; i < layout.local().elements(); ++i) {
    const auto at = static_cast<std::size_t>(layout.global_index(i));
    part.push_back(at < m.values.size() ? m.values[at] : 0.0);
  }
  return part;
}

}  // namespace thinwire::reference
