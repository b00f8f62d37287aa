// The device twin of a codec expression for tensors of one shape: the entry points of kernels/codec/device_kernels.h behind one form. It holds
// what the host codec holds as state (PowerSGD's start, an auto-encoder's weights) in device memory.
#pragma once

#include <functional>

#include "kernels/codec/registry.h"

namespace thinwire {

/// Where the entry points, memory and copies come from: a device through its module, or a test's emulation of one.
struct DeviceSeam {
  std::function<void*(const std::string&)> find;                                   ///< entry point by name
  std::function<void*(std::size_t)> allocate;                                      ///< device memory that outlives the codec, 16-byte aligned
  std::function<void(void* to, const void* from, std::size_t bytes)> write;        ///< from the host, done on return
  std::function<std::string(int)> error_text = {};                                 ///< of a code that an entry point returned
  int ordinal = 0;
  void* stream = nullptr;
};

class DeviceCodec {
 public:
  /// UsageError naming what has a twin when this expression has none (wrappers among them: their arithmetic is
  /// thinwire_cuda_residual_add and _store).
  DeviceCodec(const std::string& expression, const Shape& shape, DeviceSeam seam);

  std::size_t payload_bytes() const { return payload_bytes_; }
  /// Queues the encoding of x f32[shape]; what is wrong with x is ORed into `status`. RuntimeFailure when it cannot be queued.
  void encode(const float* x, const MessageKey& key, void* payload, std::uint32_t* status);
  /// out = decoded, or += with `add`.
  void decode(const void* payload, const MessageKey& key, float* out, bool add, std::uint32_t* status);

  /// The masked rule (topk, randomk): `travel` f32[kept()] from the gradient of the decoded tensor, and back.
  void decode_backward(const void* payload, const MessageKey& key, const float* gradient, float* travel, std::uint32_t* status);
  void encode_backward(const void* payload, const MessageKey& key, const float* travel, float* gradient, std::uint32_t* status);
  std::int64_t kept() const { return kept_; }

 private:
  enum class Kind { none, cast, quantize, topk, randomk, powersgd, autoencoder };
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments);
  const void* index_of(const void* payload) const { return static_cast<const std::byte*>(payload) + kept_ * (half_ ? 2 : 4); }
  void make_autoencoder(const Parameters& parameters);

  Kind kind_ = Kind::none;
  Shape shape_;
  DeviceSeam seam_;
  std::int64_t n_ = 0, kept_ = 0, width_ = 0;  ///< width: of an auto-encoder's code, or PowerSGD's rank
  int half_ = 0, bfloat16_ = 0, bits_ = 0, index_form_ = 0;
  std::uint64_t seed_ = 0;
  float factor_ = 1;
  bool warm_ = false, started_ = false;
  std::size_t payload_bytes_ = 0;
  void* workspace_ = nullptr;
  float *left_ = nullptr, *right_ = nullptr;  ///< PowerSGD: P and Q; auto-encoder: encoder and decoder
};

}  // namespace thinwire
