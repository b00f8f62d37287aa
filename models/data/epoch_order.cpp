#include "models/data/epoch_order.h"

#include <numeric>

#include "core/random.h"

namespace thinwire {

std::int64_t EpochOrder::at(std::uint64_t step, std::int64_t place) const {
  const std::int64_t number = static_cast<std::int64_t>(step) * global_batch_ + place, epoch = number / samples_;
  if (epoch != shuffled_) {
    order_.resize(static_cast<std::size_t>(samples_));
    std::iota(order_.begin(), order_.end(), 0);
    const Random random(seed_, mix_stream(mix_stream(stream_, hash_name("epoch")), static_cast<std::uint64_t>(epoch)));
    // Only samples of one place in the batch trade, where the batches of an epoch are whole.
    const auto places = static_cast<std::size_t>(samples_ % global_batch_ == 0 ? global_batch_ : 1);
    for (std::size_t i = order_.size(); i-- > places;) std::swap(order_[i], order_[random.below(i, i / places + 1) * places + i % places]);
    shuffled_ = epoch;
  }
  return order_[static_cast<std::size_t>(number % samples_)];
}

}  // namespace thinwire
