#include "experiments/claims/sharded_compression/cells/messages.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace thinwire::claims::sharded_compression {

Values normal_values(std::size_t count, const std::string& stream, double deviation) {
  const Random random(25, stream);
  Values x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(deviation * random.normal(i));
  return x;
}

Values Wire::arrives(std::span<const float> x, const MessageKey& key, std::int64_t rows) {
  const auto count = static_cast<std::int64_t>(x.size());
  TW_ASSERT(count % rows == 0);
  const Shape shape{rows, count / rows};
  payload_.resize(stack_.codec->max_payload_bytes(shape));
  bytes_ = encode_message(stack_, ConstTensorView(x.data(), shape), key, payload_, scratch_);
  Values out(x.size());
  decode_message(stack_, payload(), key, TensorView(out.data(), shape));
  return out;
}

Values two_level_sum(const std::vector<Values>& gradients, const TwoLevels& form, std::int64_t step) {
  const auto nodes = static_cast<std::size_t>(form.nodes), per_node = static_cast<std::size_t>(form.per_node), count = gradients.front().size();
  TW_ASSERT(gradients.size() == nodes * per_node && count % gradients.size() == 0);
  const std::size_t block = count / per_node, part = block / nodes;
  Wire inside(form.inside), across(form.across);
  MessageKey key;
  key.step = step;
  const auto add = [&](Wire& wire, std::uint64_t sender, std::span<const float> x, std::int64_t rows, std::size_t slice, std::span<float> sum) {
    key.tensor = mix_stream(hash_name("two levels"), form.own_draws ? 1 + 2 * sender + (&wire == &across ? 1 : 0) : 0);
    const Values arrived = wire.arrives(x, key.with_slice(static_cast<std::int32_t>(slice)), rows);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += arrived[i];
  };
  Values result(count, 0);
  for (std::size_t l = 0; l < per_node; ++l) {
    std::vector<Values> sums;  // of block l, by node
    for (std::size_t n = 0; n < nodes; ++n) {
      Values& sum = sums.emplace_back(block, 0.0f);
      for (std::size_t r = n * per_node; r < (n + 1) * per_node; ++r) {
        const auto piece = std::span<const float>(gradients[r]).subspan(l * block, block);
        if (per_node == 1)
          std::ranges::copy(piece, sum.begin());
        else
          add(inside, r, piece, form.nodes, l, sum);
      }
    }
    for (std::size_t p = 0; p < nodes; ++p) {
      const auto target = std::span<float>(result).subspan(l * block + p * part, part);
      for (std::size_t n = 0; n < nodes; ++n) {
        const auto piece = std::span<const float>(sums[n]).subspan(p * part, part);
        if (nodes == 1)
          std::ranges::copy(piece, target.begin());
        else
          add(across, n * per_node + l, piece, 1, l * 2 * nodes + p, target);  // as RowExchange and its channels number the pieces: slice l of the tensor, piece p
      }
    }
  }
  return result;
}

std::vector<double> exact_sum(const std::vector<Values>& gradients) {
  std::vector<double> sum(gradients.front().size(), 0.0);
  for (const Values& gradient : gradients)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  return sum;
}

double relative_error(const Values& x, const std::vector<double>& reference, double factor) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = factor * x[i] - reference[i];
    lost += d * d, all += reference[i] * reference[i];
  }
  return std::sqrt(lost / all);
}
double relative_error(const Values& x, const Values& reference) { return relative_error(x, std::vector<double>(reference.begin(), reference.end())); }

double slope(const Values& x, const std::vector<double>& reference, double factor) {
  double along = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) along += factor * x[i] * reference[i], all += reference[i] * reference[i];
  return along / all;
}

}  // namespace thinwire::claims::sharded_compression
