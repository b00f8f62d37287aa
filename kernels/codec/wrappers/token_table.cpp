#include "kernels/codec/wrappers/token_table.h"

#include "core/error.h"
#include "core/half.h"
#include "core/random.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int32_t most_tokens = 1 << 24;  // vocabularies end far below; 64 MiB of places

}  // namespace

void TokenTable::draw(std::int32_t token, BFloat16* row) const {
  const Random random(seed_, mix_stream(hash_name("subspace.token"), static_cast<std::uint64_t>(token)));
  for (std::int64_t c = 0; c < columns_; ++c) row[c] = to_bfloat16(static_cast<float>(deviation_ * random.normal(static_cast<std::uint64_t>(c))));
}

void TokenTable::rows_of(std::span<const std::int32_t> tokens, std::span<const BFloat16*> to) {
  TW_ASSERT(tokens.size() == to.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= most_tokens) throw UsageError(std::to_string(token) + " is no token id: they go from 0 to " + std::to_string(most_tokens - 1));
  }
  const auto known = static_cast<std::int64_t>(columns_ == 0 ? 0 : rows_.size() / static_cast<std::size_t>(columns_));
  new_.clear();
  for (const std::int32_t token : tokens) {
    const auto at = static_cast<std::size_t>(token);
    if (at >= places_.size()) places_.resize(at + 1, -1);
    if (places_[at] >= 0) continue;
    places_[at] = static_cast<std::int32_t>(known + static_cast<std::int64_t>(new_.size()));
    new_.push_back(token);
  }
  if (!new_.empty()) rows_.resize(static_cast<std::size_t>((known + static_cast<std::int64_t>(new_.size())) * columns_));
  parallel_ranges(static_cast<std::int64_t>(new_.size()), 8, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) draw(new_[static_cast<std::size_t>(i)], rows_.data() + (known + i) * columns_);
  });
  for (std::size_t r = 0; r < tokens.size(); ++r) to[r] = rows_.data() + places_[static_cast<std::size_t>(tokens[r])] * columns_;
}

}  // namespace thinwire
