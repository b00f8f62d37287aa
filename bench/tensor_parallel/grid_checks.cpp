#include "bench/tensor_parallel/grid_checks.h"

#include "core/memory_counter.h"
#include "models/parallel/tensor/grid_reference.h"
#include "models/layers/grid_embedding.h"
#include "models/layers/linear.h"
#include "models/parallel/tensor/tensor_parallel.h"
#include "kernels/nn/layernorm.h"

namespace thinwire::bench {
namespace {

using reference::shard;
using reference::Whole;

constexpr std::int64_t word = sizeof(double);

/// Metered bytes of the messages with this label: part of what really travelled.
std::int64_t received_as(const TensorGrid<double>& grid, const std::string& label) {
  const auto found = grid.counts().find(label);
  return found == grid.counts().end() ? 0 : found->second.sum.received_bytes;
}

/// Y = X W, or Y = X E^T with the table E laid out as the weight of a linear the other way round.
void check_linear(const CountedWorld& world, const GridCheckCase& c, bool is_head, CheckRows& rows) {
  const GridCheckSizes n(c.shape);
  const Whole x = reference::random_matrix(world.seed, "x", n.rows(), n.in), dy = reference::random_matrix(world.seed, "dy", n.rows(), n.out);
  const Whole w = is_head ? reference::random_matrix(world.seed, "e", n.out, n.in) : reference::random_matrix(world.seed, "w", n.in, n.out);
  const Whole matrix = is_head ? reference::transposed(w) : w, dmatrix = reference::product(reference::transposed(x), dy);

  ComputeClock clock;
  TensorGrid<double> grid(world.comm, c.shape, c.options, clock);
  const auto product = make_product<double>(grid, {"linear", 0, n.in, n.out, c.swapped, is_head});
  const ParameterLayout weight = is_head ? grid_linear(c.shape, "linear", n.out, n.in, grid.rank(), !c.swapped).weight
                                         : grid_linear(c.shape, "linear", n.in, n.out, grid.rank(), c.swapped, c.options.cut).weight;
  const Layout input = grid_activation(c.shape, grid.rank(), c.swapped), output = grid_activation(c.shape, grid.rank(), !c.swapped);
  const std::vector<double> my_x = shard(x, input, n.seq), my_w = shard(w, weight), my_dy = shard(dy, output, n.seq);
  std::vector<double> y(my_dy.size()), dx(my_x.size()), dw(my_w.size());
  const PassContext pass{n.batch, n.seq};
  GridProduct<double>::Kept kept;
  const auto forward = [&] { product->forward(pass, my_x.data(), my_w.data(), y.data(), &kept); };
  forward();  // channels and scratch have their memory now
  kept = {};
  grid.scratch().trim();
  const std::int64_t before = buffer_bytes(), forward_bytes = world.received_in(forward);
  grid.scratch().trim();
  const std::int64_t kept_bytes = buffer_bytes() - before;
  const std::int64_t backward_bytes = world.received_in([&] { product->backward(pass, my_x.data(), my_w.data(), my_dy.data(), dx.data(), dw.data(), &kept); });

  const std::string name = is_head ? "tied head" : "linear";
  rows.describe(c.name(), n);
  rows.error(name, "output", reference::distance(world.comm, y.data(), shard(reference::product(x, matrix), output, n.seq)));
  rows.error(name, "input gradient", reference::distance(world.comm, dx.data(), shard(reference::product(dy, reference::transposed(matrix)), input, n.seq)));
  rows.error(name, "weight gradient", reference::distance(world.comm, dw.data(), shard(is_head ? reference::transposed(dmatrix) : dmatrix, weight)));
  rows.received(name, "forward", forward_bytes);
  rows.received(name, "backward", backward_bytes);
  rows.stored(name, "stored X", static_cast<std::int64_t>(my_x.size()) * word);
  rows.stored(name, "stored W", static_cast<std::int64_t>(my_w.size()) * word);
  rows.stored(name, "stored Y", static_cast<std::int64_t>(y.size()) * word);
  rows.stored(name, "kept gathered", kept_bytes);
}

void check_bias(const CountedWorld& world, const GridCheckCase& c, CheckRows& rows) {
  const GridCheckSizes n(c.shape);
  const PassContext pass{n.batch, n.seq};
  ComputeClock clock;
  TensorGrid<double> grid(world.comm, c.shape, c.options, clock);
  GridVector<double> bias(grid, "bias", 0, n.out, c.swapped);
  const Whole b = reference::random_matrix(world.seed, "bias", 1, n.out), dy = reference::random_matrix(world.seed, "dy", n.rows(), n.out);
  reference::set(bias.parameter, b);
  const Layout output = grid_activation(c.shape, grid.rank(), !c.swapped);
  std::vector<double> block(static_cast<std::size_t>(bias.columns())), sums(block.size());
  const std::int64_t forward = world.received_in([&] { bias.gather(pass, block.data()); });
  const std::vector<double> mine = shard(dy, output, n.seq);
  for (std::size_t i = 0; i < mine.size(); ++i) sums[i % sums.size()] += mine[i];
  const std::int64_t backward = world.received_in([&] { bias.scatter_gradient(pass, sums.data()); });
  rows.error("bias", "output", reference::distance(world.comm, block.data(), shard(b, Layout{{}, {}, output.hidden}, 1)));
  rows.error("bias", "bias gradient", reference::distance(world.comm, bias.parameter.g(), shard(reference::column_sums(dy), bias.parameter.layout)));
  rows.received("bias", "forward", forward);
  rows.received("bias", "backward", backward);
  rows.stored("bias", "stored bias", bias.parameter.elements() * word);
}

void check_layernorm(const CountedWorld& world, const GridCheckCase& c, CheckRows& rows) {
  const GridCheckSizes n(c.shape);
  const PassContext pass{n.batch, n.seq};
  ComputeClock clock;
  TensorGrid<double> grid(world.comm, c.shape, c.options, clock);
  GridLayerNorm<double> norm(grid, "norm", 0, n.in);
  const auto random = [&](const char* name, std::int64_t r) { return reference::random_matrix(world.seed, name, r, n.in); };
  const Whole x = random("x", n.rows()), dy = random("dy norm", n.rows()), gamma = random("gamma", 1), beta = random("beta", 1);
  const reference::Normed expected = reference::layernorm(x, gamma, beta, dy, nn::layernorm_epsilon);
  reference::set(norm.gamma.parameter, gamma);
  reference::set(norm.beta.parameter, beta);
  const Layout layout = grid_activation(c.shape, grid.rank());
  const std::vector<double> my_x = shard(x, layout, n.seq), my_dy = shard(dy, layout, n.seq);
  std::vector<double> y(my_x.size()), dx(my_x.size());
  GridLayerNorm<double>::Saved saved;
  const std::int64_t forward = world.received_in([&] { norm.forward(pass, my_x.data(), y.data(), saved); });
  const std::int64_t backward = world.received_in([&] { norm.backward_add(pass, my_x.data(), my_dy.data(), saved, dx.data()); });
  rows.error("layernorm", "output", reference::distance(world.comm, y.data(), shard(expected.y, layout, n.seq)));
  rows.error("layernorm", "input gradient", reference::distance(world.comm, dx.data(), shard(expected.dx, layout, n.seq)));
  rows.error("layernorm", "scale gradient", reference::distance(world.comm, norm.gamma.parameter.g(), shard(expected.dgamma, norm.gamma.parameter.layout)));
  rows.error("layernorm", "shift gradient", reference::distance(world.comm, norm.beta.parameter.g(), shard(expected.dbeta, norm.beta.parameter.layout)));
  rows.received("layernorm", "forward", forward);
  rows.received("layernorm", "backward", backward);
}

std::vector<std::int32_t> random_tokens(std::uint64_t seed, const char* name, const GridCheckSizes& n) {
  const Random random(seed, name);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n.rows(); ++i) tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(n.vocab))));
  return tokens;
}

void check_embedding(const CountedWorld& world, const GridCheckCase& c, CheckRows& rows) {
  const GridCheckSizes n(c.shape);
  const PassContext pass{n.batch, n.seq};
  ComputeClock clock;
  TensorGrid<double> grid(world.comm, c.shape, c.options, clock);
  GridEmbedding<double> embedding(grid, n.vocab, n.seq, n.in, 1);
  Parameter<double> table = grid_token_table(grid, n.vocab, n.in, 1);
  const Whole e = reference::random_matrix(world.seed, "table", n.vocab, n.in), p = reference::random_matrix(world.seed, "positions", n.seq, n.in),
              dy = reference::random_matrix(world.seed, "dy embedding", n.rows(), n.in);
  reference::set(table, e);
  reference::set(embedding.position, p);
  const std::vector<std::int32_t> tokens = random_tokens(world.seed, "tokens", n);
  Whole y = reference::zeros(n.rows(), n.in), de = reference::zeros(n.vocab, n.in), dp = reference::zeros(n.seq, n.in);
  for (std::int64_t r = 0; r < n.rows(); ++r)
    for (std::int64_t k = 0; k < n.in; ++k) {
      const std::int64_t token = tokens[static_cast<std::size_t>(r)];
      y.at(r, k) = e.at(token, k) + p.at(r % n.seq, k);
      de.at(token, k) += dy.at(r, k), dp.at(r % n.seq, k) += dy.at(r, k);
    }
  const Layout layout = grid_activation(c.shape, grid.rank());
  const std::vector<double> my_dy = shard(dy, layout, n.seq);
  std::vector<double> mine(my_dy.size());
  const std::int64_t forward = world.received_in([&] { embedding.forward(pass, tokens.data(), table, mine.data()); });
  grid.reset_counts();
  const std::int64_t backward = world.received_in([&] { embedding.backward(pass, tokens.data(), table, my_dy.data(), table.g()); });
  rows.error("embedding", "output", reference::distance(world.comm, mine.data(), shard(y, layout, n.seq)));
  rows.error("embedding", "table gradient", reference::distance(world.comm, table.g(), shard(de, table.layout)));
  rows.error("embedding", "position gradient", reference::distance(world.comm, embedding.position.g(), shard(dp, embedding.position.layout)));
  rows.received("embedding", "forward", forward);
  rows.received("embedding", "backward", backward);
  rows.received("embedding", "backward: all_reduce position gradient", received_as(grid, "all_reduce position gradient"));
}

void check_loss(const CountedWorld& world, const GridCheckCase& c, CheckRows& rows) {
  const GridCheckSizes n(c.shape);
  const PassContext pass{n.batch, n.seq};
  ComputeClock clock;
  TensorGrid<double> grid(world.comm, c.shape, c.options, clock);
  GridTiedHead<double> head(grid, n.vocab, n.in, 1);
  Parameter<double> table = grid_token_table(grid, n.vocab, n.in, 1);
  const Whole e = reference::random_matrix(world.seed, "table", n.vocab, n.in), x = reference::random_matrix(world.seed, "x", n.rows(), n.in);
  Whole ones = reference::zeros(1, n.in), none = reference::zeros(1, n.in);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  reference::set(table, e);
  const std::vector<std::int32_t> targets = random_tokens(world.seed, "targets", n);
  const Whole normed = reference::layernorm(x, ones, none, x, nn::layernorm_epsilon).y;
  const reference::Loss loss = reference::cross_entropy(reference::product(normed, reference::transposed(e)), targets);
  const reference::Normed back = reference::layernorm(x, ones, none, reference::product(loss.gradient, e), nn::layernorm_epsilon);
  const Whole de = reference::product(reference::transposed(loss.gradient), normed);

  const Layout layout = grid_activation(c.shape, grid.rank()), logits = grid_activation(c.shape, grid.rank(), true);
  const std::vector<double> my_x = shard(x, layout, n.seq);
  std::vector<double> dx(my_x.size());
  GridTiedHead<double>::Saved saved;
  const std::int64_t forward = world.received_in([&] { head.forward(pass, my_x.data(), table, targets.data(), 1.0, saved); });
  const double mine = read_number(saved.loss);
  // Logits of the padding have no gradient.
  Whole padded = reference::zeros(n.rows(), table.layout.global().rows());
  for (std::int64_t r = 0; r < n.rows(); ++r)
    for (std::int64_t k = 0; k < n.vocab; ++k) padded.at(r, k) = loss.gradient.at(r, k);
  const double gradient = reference::distance(world.comm, data_of<double>(saved.logits), shard(padded, logits, n.seq));
  const std::int64_t statistics = received_as(grid, "all_reduce softmax maximum"), sums = received_as(grid, "all_reduce softmax sums"),
                     mean = received_as(grid, "all_reduce loss");
  const std::int64_t backward = world.received_in([&] { head.backward(pass, my_x.data(), table, saved, dx.data()); });
  rows.error("cross-entropy", "loss", std::abs(mine - loss.mean) / loss.mean);
  rows.error("cross-entropy", "gradient of the logits", gradient);
  rows.error("norm, tied head, cross-entropy", "input gradient", reference::distance(world.comm, dx.data(), shard(back.dx, layout, n.seq)));
  rows.error("norm, tied head, cross-entropy", "table gradient", reference::distance(world.comm, data_of<double>(head.table_gradient), shard(de, table.layout)));
  rows.received("cross-entropy", "maximum", statistics);
  rows.received("cross-entropy", "sums", sums);
  rows.received("norm, tied head, cross-entropy", "forward", forward);
  rows.received("norm, tied head, cross-entropy", "forward: all_reduce loss", mean);
  rows.received("norm, tied head, cross-entropy", "backward", backward);
}

}  // namespace

void check_linears(const CountedWorld& world, const GridShape& shape, CheckRows& rows) {
  for (const GridCheckCase& c : grid_check_cases(shape)) {
    check_linear(world, c, false, rows);
    if (c.options.cut == WeightCut::rows && !c.swapped) check_linear(world, c, true, rows);
  }
}

void check_layers(const CountedWorld& world, const GridShape& shape, CheckRows& rows) {
  for (const GridCheckCase& c : grid_check_cases(shape)) {
    if (c.options.gather != GatherPolicy::again || c.options.cut != WeightCut::rows) continue;
    rows.describe(c.name(), GridCheckSizes(shape));
    check_bias(world, c, rows);
    if (c.swapped) continue;  // the others have one orientation
    check_layernorm(world, c, rows);
    check_embedding(world, c, rows);
    check_loss(world, c, rows);
  }
}

void check_line_pair(const CountedWorld& world, CheckRows& rows) {
  const int ranks = world.comm.size(), rank = world.comm.rank();
  const GridCheckSizes n({GridKind::one_d, {ranks, 1, 1}});
  const Whole x = reference::random_matrix(world.seed, "x", n.rows(), n.in), dy = reference::random_matrix(world.seed, "dy pair", n.rows(), n.in),
              w1 = reference::random_matrix(world.seed, "w", n.in, n.out), w2 = reference::random_matrix(world.seed, "w2", n.out, n.in);
  const Whole middle = reference::product(x, w1), dmiddle = reference::product(dy, reference::transposed(w2));
  ChannelPairOptions options;
  options.comm_dtype = DType::f64;
  ChannelPair forward_lane(world.comm, TrafficClass::tp_forward, {}, options), backward_lane(world.comm, TrafficClass::tp_backward, {}, options);
  ChannelOptions control_options;
  control_options.comm_dtype = DType::f64;
  Channel control(world.comm, control_options);
  TensorParallel<double> tensor(forward_lane, backward_lane, control, control, 0, false);
  Linear<double> first(column_parallel("first", n.in, n.out, ranks, rank), 1, 0.02), second(row_parallel("second", n.out, n.in, ranks, rank), 1, 0.02);
  reference::set(first.weight, w1);
  reference::set(second.weight, w2);
  const PassContext pass{n.batch, n.seq};
  const auto wide = static_cast<std::size_t>(n.rows() * n.out / ranks), narrow = static_cast<std::size_t>(n.rows() * n.in);
  std::vector<double> h(wide), dh(wide), y(narrow), dx(narrow);
  const std::int64_t forward = world.received_in([&] {
    first.forward(n.rows(), x.values.data(), h.data());
    second.partial(n.rows(), h.data(), y.data());
    tensor.sum_output(pass, "pair", 0, n.rows(), n.in, y.data(), y.data());
  });
  const std::int64_t backward = world.received_in([&] {
    second.backward(n.rows(), h.data(), dy.values.data(), dh.data());
    first.input_gradient(n.rows(), dh.data(), dx.data());
    Operation sum = tensor.start_sum_input_gradient(pass, "pair", 0, n.rows(), n.in, dx.data(), dx.data());
    first.weight_gradient(n.rows(), x.values.data(), dh.data());
    tensor.finish_sum_input_gradient(std::move(sum), pass, "pair", 0, n.rows(), n.in, dx.data());
  });
  rows.describe("1d " + std::to_string(ranks), n);
  rows.error("pair of linears", "output", reference::distance(world.comm, y.data(), reference::product(middle, w2).values));
  rows.error("pair of linears", "input gradient", reference::distance(world.comm, dx.data(), reference::product(dmiddle, reference::transposed(w1)).values));
  rows.error("pair of linears", "weight gradient", reference::distance(world.comm, first.weight.g(), shard(reference::product(reference::transposed(x), dmiddle), first.weight.layout)));
  rows.error("pair of linears", "second weight gradient", reference::distance(world.comm, second.weight.g(), shard(reference::product(reference::transposed(middle), dy), second.weight.layout)));
  rows.received("pair of linears", "forward", forward);
  rows.received("pair of linears", "backward", backward);
}

}  // namespace thinwire::bench
