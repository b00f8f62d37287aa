// The step of a pipeline under the speedrun's accounting (docs/papers/low_bandwidth_pipeline.md, "The
// contest's link"), in closed form and walked event by event: a stage takes its messages in the order of its
// program from one inbound wire, which each occupies for its bytes and the latency; senders pay nothing.
// Seconds, bytes and bits per second.
#pragma once

#include <cstdint>

#include "models/parallel/schedule/schedule.h"

namespace thinwire::claims::low_bandwidth_pipeline {

/// The accounting, and what may be changed about it to see whether it matters.
struct Wire {
  double rate = 0, latency = 0;
  bool shared = true;            ///< one inbound wire for both neighbours; false: one for each
  bool latency_occupies = true;  ///< false: it propagates, and the wire is free meanwhile

  /// 8 (bytes + meter_header_bytes) / rate + latency.
  double message_time(std::int64_t bytes) const;
};

/// Computing of a stage.
struct Passes {
  double forward = 0, backward = 0;            ///< of a micro-batch through a stage but the last
  double last_forward = 0, last_backward = 0;  ///< through the last one
  double optimizer = 0;                        ///< after the stage's last pass
};

/// From the first instruction to the end of the last stage's update. All messages are of one size.
/// RuntimeFailure where the schedule waits for what never comes.
double walked_step(const Schedule& schedule, const Wire& wire, std::int64_t message_bytes,
                   const Passes& passes = {});

/// Message times of a step without computing: 1F1B 2m + 2P - 5 (m + 1 for two stages), GPipe 2m + 2P - 4.
int messages_of_1f1b(int stages, int micro_batches);
int messages_of_gpipe(int stages, int micro_batches);

/// Number of micro-batches, not a whole one, that makes (2m + 2P - 5) (8 S / (m rate) + L) least: sqrt((2P -
/// 5) 8 S / (2 L rate)), where S are the bytes that a step sends one way.
double best_micro_batches(int stages, double bytes_one_way, const Wire& wire);

}  // namespace thinwire::claims::low_bandwidth_pipeline
