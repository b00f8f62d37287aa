// What a capture wants to see of a model in training: the tensors that parallel training would send. The
// pointers are valid within the call only.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire {

template <typename T>
class TrafficObserver {
 public:
  virtual ~TrafficObserver() = default;
  /// A linear that tensor parallelism splits by rows is about to multiply x [rows, in] by weight [in, out].
  virtual void row_parallel(const std::string& /*name*/, std::int64_t /*rows*/, std::int64_t /*in*/,
                            std::int64_t /*out*/, const T* /*x*/, const T* /*weight*/) {}
  /// The activation [rows, hidden] that leaves block `boundary` - 1 for block `boundary`.
  virtual void boundary_activation(int /*boundary*/, std::int64_t /*rows*/, std::int64_t /*hidden*/,
                                   const T* /*x*/) {}
  /// The gradient that travels back over the same boundary.
  virtual void boundary_gradient(int /*boundary*/, std::int64_t /*rows*/, std::int64_t /*hidden*/,
                                 const T* /*gradient*/) {}
  /// Gradient of the token table [vocab, hidden] from one micro-batch: of the tied head (last use), of the
  /// look-up (first use).
  virtual void embedding_gradient(bool /*first_use*/, std::int64_t /*vocab*/, std::int64_t /*hidden*/,
                                  const T* /*gradient*/) {}
};

}  // namespace thinwire
