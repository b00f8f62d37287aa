// Limits and workspaces of the device's orthonormalisation, for both sides of the seam.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

inline constexpr std::int64_t orthonormalise_most_columns = 32768;
/// Per matrix.
constexpr std::size_t orthonormalise_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = (rows + 1023) / 1024;
  return static_cast<std::size_t>(16 + 8 * (columns * columns * (blocks + 1) + columns + columns * rows) + 8) / 16 * 16;
}

}  // namespace thinwire
