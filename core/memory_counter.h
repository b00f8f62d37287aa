// How many bytes this process holds in tensors and buffers: what a closed form of memory is compared with.
#pragma once

#include <cstdint>

namespace thinwire {

/// Bytes of all Buffers (and so of all Tensors) of the process, on any device; now, and the most since the last reset.
std::int64_t buffer_bytes();
std::int64_t buffer_bytes_peak();
void reset_buffer_bytes_peak();

}  // namespace thinwire
