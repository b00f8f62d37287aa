// What entry points of all kernels share, on the host's side and the device's. The rules of their arguments: all pointers are device memory of
// `ordinal`; work is queued on `stream`, nothing waits for it. Payloads, lists and tensors may lie at any address that their elements allow;
// 16-byte aligned ones are moved faster. Workspaces are 16-byte aligned.
//
// `status` is one 32-bit word on the device into which kernels OR what they find, so that no host synchronisation is needed: set it to 0 once,
// copy it back with the payload.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

inline constexpr std::uint32_t device_status_non_finite = 1;    ///< input holds NaN or infinity
inline constexpr std::uint32_t device_status_beyond_range = 2;  ///< a finite value or scale exceeds the wire type
inline constexpr std::uint32_t device_status_damaged = 4;       ///< a payload holds what no encoder writes

/// What every entry point that multiplies matrices has at the start of its workspace; one workspace serves one stream.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;

}  // namespace thinwire
