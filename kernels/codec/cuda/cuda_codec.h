// What all CUDA implementations of codecs share: they stand behind the host's interface, their tensors, payloads and memory lie on a device, and
// work is queued on the placement's stream (core/device/placement.h); nothing waits. A codec's own `.cpp` derives from this and registers itself:
//   const bool cuda = register_cuda("sign", [](const Parameters&, Form, std::unique_ptr<Codec> host) { return std::make_unique<CudaSign>(std::move(host)); });
#pragma once

#include <memory>
#include <string>

#include "core/device/device_entry.h"
#include "kernels/codec/registry.h"
#include "kernels/workspace.h"

namespace thinwire {

/// Traits, sizes and refusals are the host codec's, of the same parameters; the payloads, too (traits().reordered_sums excepted).
class CudaCodec : public Codec, public DeviceHalf {
 public:
  /// `name`: of the codec, in messages.
  CudaCodec(std::string name, std::unique_ptr<Codec> host);

  const CodecTraits& traits() const final { return host_->traits(); }
  std::size_t max_payload_bytes(const Shape& shape) const final { return host_->max_payload_bytes(shape); }
  void check_message(const Shape& shape) const final { host_->check_message(shape); }
  double least_bytes_read(const Shape& shape) const final { return host_->least_bytes_read(shape); }

  const std::uint32_t* status_words() const final { return reinterpret_cast<const std::uint32_t*>(words_.data()); }
  /// Throws what the host codec would: NotRepresentable for a tensor that cannot be represented, CorruptData for a payload. Clears the words.
  void check_status(std::array<std::uint32_t, 2> seen, const MessageKey& key) final;

 protected:
  /// Queue the encoding of x f32 [shape], which has elements, into all max_payload_bytes(shape) of `payload`, and the decoding: out = decoded, or
  /// += with `add`. What is wrong is ORed into tensor_status() and payload_status().
  virtual void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) = 0;
  virtual void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key, float* out, bool add) = 0;

  /// Queues the payload of a tensor without elements. The default is zeros: scales of no rows.
  virtual void queue_empty(const Shape& shape, std::span<std::byte> payload);

  /// In device memory: a word about tensors that were encoded (and gradients), and one about payloads that were decoded.
  std::uint32_t* tensor_status() { return reinterpret_cast<std::uint32_t*>(words_.data()); }
  std::uint32_t* payload_status() { return tensor_status() + 1; }
  /// Under a host placement where it is asked to compute.
  Codec& host() const { return *host_; }
  const std::string& name() const { return name_; }
  /// The elements of an f32 tensor that lies where the thread computes.
  static const float* floats(ConstTensorView x);
  static float* floats(TensorView x) { return const_cast<float*>(floats(ConstTensorView(x))); }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) final;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final { expand(payload, key, out, true); }
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add);

  std::string name_;
  std::unique_ptr<Codec> host_;
  Buffer words_;
};

}  // namespace thinwire
