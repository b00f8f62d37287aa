// Device memory for the work that is queued next on a stream.
#pragma once

#include <cstddef>

namespace thinwire {

/// `bytes` for what is queued next on the placement's stream, 256-byte aligned: one per thread and stream, so a call's kernels may use it and
/// the next call's may use it again. It grows only, in the order of the stream: work that is queued keeps what it was given, and nothing
/// waits. Of the size asked for at most so far, so that what is written behind it shows where memory is guarded.
std::byte* device_workspace(std::size_t bytes);

}  // namespace thinwire
