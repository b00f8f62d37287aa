#include "bench/tensor_parallel/split_memory.h"

#include <algorithm>

#include "core/memory_counter.h"

namespace thinwire::bench {

std::int64_t peak_bytes(Communicator& world, const GridShape& shape, const SplitSizes& s) {
  const std::int64_t before = buffer_bytes();
  reset_buffer_bytes_peak();
  const auto unit = make_split_unit(world, shape, s);
  Tensor x = random_shard(s, "x", s.hidden, unit->input), dy = random_shard(s, "dy", s.out(), unit->output), y(dy.shape()), dx(x.shape());
  for (int pass = 0; pass < 2; ++pass) {
    unit->forward(data_of<float>(x), y.as<float>().data());
    unit->backward(data_of<float>(x), data_of<float>(dy), dx.as<float>().data());
  }
  std::int64_t peak = buffer_bytes_peak() - before, most = 0;
  world.all_reduce(&peak, &most, 1, DType::i64, ReduceOp::max)->wait();
  return most;
}

std::int64_t largest_batch(Communicator& world, const GridShape& shape, SplitSizes s, std::int64_t limit, std::int64_t& smallest) {
  const auto fits = [&](std::int64_t batch) {
    s.batch = batch;
    return peak_bytes(world, shape, s) <= limit;
  };
  for (smallest = s.batch = 1; !why_not(shape, s).empty() && smallest < world.size(); s.batch = ++smallest) {}
  const std::int64_t least = peak_bytes(world, shape, s);
  if (least > limit) return 0;
  s.batch = 2 * smallest;
  const std::int64_t slope = std::max<std::int64_t>(1, peak_bytes(world, shape, s) - least);
  std::int64_t batch = smallest * (1 + (limit - least) / slope);
  while (batch > smallest && !fits(batch)) batch -= smallest;
  while (fits(batch + smallest)) batch += smallest;
  return batch;
}

}  // namespace thinwire::bench
