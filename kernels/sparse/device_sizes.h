// Forms and workspaces of the sparse kernels, for both sides of the seam.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

/// How positions are sent (kernels/sparse/index_coding.h: IndexForm).
inline constexpr int index_form_compact = 0, index_form_int32 = 1, index_form_int64 = 2;
inline constexpr std::int64_t topk_tile = 4096, topk_state_bytes = 24640;
/// Bytes of workspace of thinwire_cuda_topk_encode: 6 per element (every element may have to be looked at again), of which
/// little is touched unless magnitudes are all alike.
constexpr std::size_t topk_workspace_bytes(std::int64_t count, std::int64_t kept) {
  const std::int64_t tiles = (count + topk_tile - 1) / topk_tile;
  return static_cast<std::size_t>(topk_state_bytes + tiles * (8 + 4 + 6 * topk_tile) + (kept + count / 256 + 1) / 8 + 16);
}
/// Of thinwire_cuda_sparse_scatter and _gather.
constexpr std::size_t sparse_workspace_bytes(std::int64_t count, std::int64_t kept) {
  return static_cast<std::size_t>(16 + ((kept + count / 256 + 1) / 32768 + 2) * 4);
}

/// Of the entry points of randomk's released form.
constexpr std::size_t randomk_workspace_bytes(std::int64_t count, std::int64_t kept) { return static_cast<std::size_t>((count + 31) / 32 + kept) * 4; }

}  // namespace thinwire
