// The vocabulary of traffic, protocols and algorithms.
#pragma once

#include <string>
#include <string_view>

namespace thinwire {

/// What crosses a link in 3D-parallel training (docs/design.md section 2).
enum class TrafficClass {
  tp_forward,
  tp_backward,
  pp_forward,
  pp_backward,
  dp_gradient,
  embedding,
  param_all_gather,     ///< sharded data parallelism: weights from the ranks that own their rows
  grad_reduce_scatter,  ///< and gradients to them
  outer_gradient,       ///< what replicas exchange every so many steps
  optimizer,            ///< what an update exchanges inside itself
  tp_weight,            ///< weights of a tensor grid
  tp_weight_gradient,   ///< and their gradients
  control  ///< norms, loss, look-ups: metered, never compressed
};
std::string name_of(TrafficClass traffic);
TrafficClass parse_traffic(std::string_view name);

/// How payloads are summed over ranks. `automatic`: rounds if the codec can, else gather.
enum class Protocol { automatic, dense, rounds, gather, two_shot, point_to_point };
std::string name_of(Protocol protocol);
Protocol parse_protocol(std::string_view name);

/// Who carries a dense reduction out: the MPI/NCCL library, or our own ring whose bytes can be counted.
enum class DenseAlgorithm { library, ring };
std::string name_of(DenseAlgorithm algorithm);

/// real: codec work runs as it comes. serial: one rank of the machine at a time (a lock), durations are
/// remembered. replay: codec work is replaced by a timed wait of the remembered duration; buffers keep the
/// content of the last real pass (docs/measuring.md: real compute on oversubscribed ranks falsifies timing).
enum class ComputeMode { real, serial, replay };

}  // namespace thinwire
