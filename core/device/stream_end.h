// Whoever keeps something by a stream's handle is told when the stream goes: the handle may come back with another stream.
#pragma once

#include "core/device/device.h"

namespace thinwire {

/// From now on `body` is called with each stream of a device that is about to be destroyed; what it queues on the stream still runs. Streams are
/// destroyed where nothing may be thrown.
void before_stream_ends(void (*body)(const Stream&) noexcept);

}  // namespace thinwire
