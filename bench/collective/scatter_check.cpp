#include "bench/collective/scatter_check.h"

#include <cmath>

#include "collectives/channel/channel.h"
#include "core/tensor_names.h"

namespace thinwire::bench {
namespace {

/// This rank's partial gradient. `mean`: what all rows of all ranks have in common, beside noise of deviation 1.
Tensor partial_gradient(int rank, const ScatterCheckSizes& s, double mean, std::uint64_t seed) {
  const auto random_rows = [&](const char* name, std::int64_t columns) {
    const Random noise(seed, mix_stream(hash_name(name), static_cast<std::uint64_t>(rank))), common(seed, std::string(name) + " mean");
    std::vector<float> x(static_cast<std::size_t>(s.rows * columns));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(noise.normal(i) + mean * common.normal(i % static_cast<std::size_t>(columns)));
    return x;
  };
  const std::vector<float> x = random_rows("X", s.in), dy = random_rows("dY", s.out);
  Tensor partial(Shape{s.in, s.out});
  partial.fill_zero();
  float* to = partial.as<float>().data();
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t i = 0; i < s.in; ++i)
      for (std::int64_t j = 0; j < s.out; ++j) to[i * s.out + j] += x[static_cast<std::size_t>(r * s.in + i)] * dy[static_cast<std::size_t>(r * s.out + j)];
  return partial;
}

/// A ring reduce-scatter that encodes each partial sum before it sends it on; the last sum stays as it is. Returns how often the
/// contribution that came the farthest was encoded.
std::int64_t ring_scatter(Communicator& world, Codec& codec, const Tensor& partial, Tensor& shard) {
  const int n = world.size(), rank = world.rank();
  const std::int64_t columns = partial.shape().columns();
  const Shape most{shard_rows(partial.shape().rows(), 0, n).count, columns};
  std::vector<std::byte> sent(codec.max_payload_bytes(most)), arriving(sent.size());
  Tensor sum(most);
  std::int64_t encodings = 0, encodings_before = 0;
  const auto block_of = [&](int index) { return shard_rows(partial.shape().rows(), (index + 2 * n) % n, n); };
  const auto mine = [&](RowBlock b) { return partial.view().flat_slice(b.first * columns, b.count * columns).reshaped({b.count, columns}); };
  const RowBlock first = block_of(rank - 1);
  sum.reshape({first.count, columns});
  std::copy_n(mine(first).as<float>().data(), first.count * columns, sum.as<float>().data());
  for (int step = 0; step + 1 < n; ++step) {
    MessageKey key;
    key.tensor = tensor_id("ring of partial sums");
    key.slice = step;
    const auto bytes = static_cast<std::int64_t>(codec.encode(std::as_const(sum).view(), key, sent));
    ++encodings;
    std::int64_t size = 0;
    const int to = (rank + 1) % n, from = (rank - 1 + n) % n;
    auto count_in = world.receive(&encodings_before, sizeof encodings_before, from, 2 * step), payload_in = world.receive(arriving.data(), static_cast<std::int64_t>(arriving.size()), from, 2 * step + 1, &size);
    auto count_out = world.send(&encodings, sizeof encodings, to, 2 * step), payload_out = world.send(sent.data(), bytes, to, 2 * step + 1);
    for (Request* request : {count_in.get(), payload_in.get(), count_out.get(), payload_out.get()}) request->wait();
    encodings = encodings_before;
    const RowBlock block = block_of(rank - step - 2);
    sum.reshape({block.count, columns});
    codec.decode({arriving.data(), static_cast<std::size_t>(size)}, key, sum.view());
    const auto own = mine(block).as<float>();
    for (std::size_t i = 0; i < own.size(); ++i) sum.as<float>()[i] += own[i];
  }
  shard.reshape(sum.shape());
  std::copy_n(sum.as<float>().data(), sum.elements(), shard.as<float>().data());
  return encodings;
}

double distance(Communicator& world, const Tensor& shard, const std::vector<double>& exact) {
  double sums[2] = {0, 0}, all[2];
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double d = shard.as<float>()[i] - exact[i];
    sums[0] += d * d, sums[1] += exact[i] * exact[i];
  }
  world.all_reduce(sums, all, 2, DType::f64, ReduceOp::sum)->wait();
  return std::sqrt(all[0] / all[1]);
}

}  // namespace

void check_scatter(Communicator& world, const std::string& codec, const ScatterCheckSizes& s, std::uint64_t seed, CheckRows& rows) {
  if (s.in % world.size() != 0) throw UsageError(std::to_string(s.in) + " rows of a weight are not split evenly by " + std::to_string(world.size()) + " ranks");
  for (const auto& [name, mean] : {std::pair{"independent", 0.0}, {"alike", 0.5}}) {
    const Tensor partial = partial_gradient(world.rank(), s, mean, seed);
    std::vector<double> wide(partial.as<float>().begin(), partial.as<float>().end()), sum(wide.size());
    world.all_reduce(wide.data(), sum.data(), partial.elements(), DType::f64, ReduceOp::sum)->wait();
    const RowBlock block = shard_rows(s.in, world.rank(), world.size());
    const std::vector<double> exact(sum.begin() + block.first * s.out, sum.begin() + (block.first + block.count) * s.out);

    ChannelOptions options;
    options.traffic = TrafficClass::grad_reduce_scatter;
    options.codec = codec;
    Channel channel(world, options);
    Tensor shard(Shape{block.count, s.out});
    MessageKey key;
    key.tensor = tensor_id("partial gradient");
    channel.reduce_scatter(partial.view(), shard.view(), key).wait();
    rows.common.codec = channel.codec().expression.canonical();
    rows.common.dtype = "f32";
    rows.error(name, "all-to-all", distance(world, shard, exact));
    // One payload for each rank, and no contribution is in two of them.
    const auto one = static_cast<std::int64_t>(channel.codec().codec->max_payload_bytes(shard.shape()));
    rows.stored(name, "all-to-all, encodings of a contribution", channel.meter().last().payload_bytes / (one * world.size()));

    CodecStack stack = make_codec(codec);
    const std::int64_t encodings = ring_scatter(world, *stack.codec, partial, shard);
    rows.error(name, "ring", distance(world, shard, exact));
    rows.stored(name, "ring, encodings of a contribution", encodings);
  }
}

}  // namespace thinwire::bench
