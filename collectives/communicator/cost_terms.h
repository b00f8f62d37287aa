// Closed forms: the bytes that one rank sends and receives in a collective under a named algorithm. The one
// definition behind `link_bytes`; our own ring and direct exchanges count what they really send, and the
// tests hold both against each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire {

/// Bytes over the link of one rank; what it keeps for itself is not counted.
struct LinkBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  LinkBytes& operator+=(const LinkBytes& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  bool operator==(const LinkBytes&) const = default;
};

/// First row and row count of block `index` of `blocks` over `rows`: the first rows % blocks blocks are one
/// longer.
struct RowBlock {
  std::int64_t first, count;
};
RowBlock shard_rows(std::int64_t rows, int index, int blocks);
/// Sizes of all blocks of shard_rows(count, i, blocks), times `factor`.
std::vector<std::int64_t> shard_counts(std::int64_t count, int blocks, std::int64_t factor = 1);

/// Ring reduce-scatter of blocks of block_bytes[r] bytes, block r ending on rank r: n - 1 steps; a rank sends
/// every block but its own and receives every block but its left neighbour's. Equal blocks: (n-1)/n D.
LinkBytes ring_reduce_scatter_bytes(std::span<const std::int64_t> block_bytes, int rank);
/// Ring all-gather of blocks of block_bytes[r] bytes: sends every block but the right neighbour's, receives
/// every block but its own. Equal blocks of p bytes: (n-1) p.
LinkBytes ring_all_gather_bytes(std::span<const std::int64_t> block_bytes, int rank);
/// Ring all-reduce = reduce-scatter + all-gather of as equal blocks of elements as can be (Patarasuk and
/// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009). n | elements: 2
/// (n-1)/n D.
LinkBytes ring_all_reduce_bytes(std::int64_t elements, std::int64_t element_bytes, int rank, int ranks);
/// Every rank sends each other rank its piece directly.
LinkBytes direct_all_to_all_bytes(std::span<const std::int64_t> send_bytes,
                                  std::span<const std::int64_t> receive_bytes, int rank);
/// A chain from the root through ranks root + 1, root + 2, ...: all but the last forward the message once.
LinkBytes chain_broadcast_bytes(std::int64_t bytes, int rank, int ranks, int root);
/// The same chain backward, adding on the way: all but the root send once.
LinkBytes chain_reduce_bytes(std::int64_t bytes, int rank, int ranks, int root);

}  // namespace thinwire
