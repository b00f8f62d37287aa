#include "collectives/communicator/cost_terms.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace thinwire {
namespace {

std::int64_t total(std::span<const std::int64_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::int64_t block_of(std::span<const std::int64_t> bytes, int rank) {
  const auto n = static_cast<int>(bytes.size());
  return bytes[static_cast<std::size_t>((rank % n + n) % n)];
}

}  // namespace

RowBlock shard_rows(std::int64_t rows, int index, int blocks) {
  TW_ASSERT(rows >= 0 && blocks > 0 && index >= 0 && index < blocks);
  const std::int64_t base = rows / blocks, longer = rows % blocks;
  return {index * base + std::min<std::int64_t>(index, longer), base + (index < longer ? 1 : 0)};
}

std::vector<std::int64_t> shard_counts(std::int64_t count, int blocks, std::int64_t factor) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(blocks));
  for (int i = 0; i < blocks; ++i)
    counts[static_cast<std::size_t>(i)] = shard_rows(count, i, blocks).count * factor;
  return counts;
}

LinkBytes ring_reduce_scatter_bytes(std::span<const std::int64_t> block_bytes, int rank) {
  if (block_bytes.size() == 1) return {};
  const std::int64_t all = total(block_bytes);
  return {all - block_of(block_bytes, rank), all - block_of(block_bytes, rank - 1)};
}

LinkBytes ring_all_gather_bytes(std::span<const std::int64_t> block_bytes, int rank) {
  if (block_bytes.size() == 1) return {};
  const std::int64_t all = total(block_bytes);
  return {all - block_of(block_bytes, rank + 1), all - block_of(block_bytes, rank)};
}

LinkBytes ring_all_reduce_bytes(std::int64_t elements, std::int64_t element_bytes, int rank, int ranks) {
  const std::vector<std::int64_t> blocks = shard_counts(elements, ranks, element_bytes);
  LinkBytes bytes = ring_reduce_scatter_bytes(blocks, rank);
  bytes += ring_all_gather_bytes(blocks, rank);
  return bytes;
}

LinkBytes direct_all_to_all_bytes(std::span<const std::int64_t> send_bytes,
                                  std::span<const std::int64_t> receive_bytes, int rank) {
  return {total(send_bytes) - block_of(send_bytes, rank),
          total(receive_bytes) - block_of(receive_bytes, rank)};
}

LinkBytes chain_broadcast_bytes(std::int64_t bytes, int rank, int ranks, int root) {
  const int place = (rank - root + ranks) % ranks;
  return {place == ranks - 1 ? 0 : bytes, place == 0 ? 0 : bytes};
}

LinkBytes chain_reduce_bytes(std::int64_t bytes, int rank, int ranks, int root) {
  const LinkBytes reverse = chain_broadcast_bytes(bytes, rank, ranks, root);
  return {reverse.received, reverse.sent};
}

}  // namespace thinwire
