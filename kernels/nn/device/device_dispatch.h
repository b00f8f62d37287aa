// How the functions of kernels/nn reach a device: under a device placement (core/device/placement.h) they queue the module's entry point of their
// name (kernels/nn/device/device_nn.h) on the placement's stream, with the addresses as given, and return. Used by the .cpp files of this folder:
//   if (device::on_device()) return device::queue<T>(device::entries().gelu_forward, device_f32, count, x, y);
#pragma once

#include <type_traits>

#include "core/device/device_entry.h"
#include "kernels/nn/device/device_nn.h"
#include "kernels/workspace.h"

namespace thinwire::nn::device {

#define THINWIRE_NN_ENTRIES(X)                                                                                                      \
  X(gemm) X(row_moments) X(normalise) X(gradient_moments) X(normalise_backward) X(gelu_forward) X(gelu_backward) X(cross_entropy)   \
  X(softmax_statistics) X(split_cross_entropy) X(take_maxima) X(rescale_sums) X(join_statistics) X(adamw_step) X(sum_of_squares)    \
  X(add_total) X(attention_forward) X(attention_backward) X(attention_slice_forward) X(attention_slice_backward) X(fill_rows)       \
  X(add_column_sums) X(add_into) X(scale_in_place) X(add_rows) X(add_rows_gradient) X(copy_rows) X(embed) X(embed_backward) X(dropout)

struct Entries {
#define THINWIRE_NN_ENTRY(entry) DeviceEntry<thinwire_cuda_##entry##_fn> entry{"thinwire_cuda_" #entry};
  THINWIRE_NN_ENTRIES(THINWIRE_NN_ENTRY)
#undef THINWIRE_NN_ENTRY
};
inline constinit const Entries all_entries;
inline const Entries& entries() { return all_entries; }

inline bool on_device() { return !placement().on_host(); }

/// For what is queued next on the placement's stream (kernels/workspace.h).
inline std::byte* workspace(std::size_t bytes) { return device_workspace(bytes); }

/// The words into which kernels OR what the host reports by an exception: a look-up's tokens, and a loss's targets.
enum class StatusWord { tokens, targets };
std::uint32_t* status_word(StatusWord which);

/// UsageError: devices have no f64.
[[noreturn]] void refuse_f64(const char* entry);

/// Queues `entry`; T: the element type of the host function.
template <typename T, typename Function, typename... Arguments>
void queue(const DeviceEntry<Function>& entry, Arguments... arguments) {
  if constexpr (std::is_same_v<T, float>)
    entry(arguments...);
  else
    refuse_f64(entry.name());
}

}  // namespace thinwire::nn::device

namespace thinwire::nn {

/// Under a device placement: waits for its stream and throws CorruptData where a look-up or a loss since the last call met a token or a target
/// outside its vocabulary, as the host's functions do at once. For a step's end: it is a synchronisation. On the host there is nothing to do.
void check_device_status();

}  // namespace thinwire::nn
