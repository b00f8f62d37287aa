// The CUDA implementation of a codec expression for tensors of one shape: the entry points of kernels/codec/cuda/device_kernels.h behind one form. It holds
// what the host codec holds as state (PowerSGD's starts, an auto-encoder's weights) in device memory.
#pragma once

#include <memory>

#include "kernels/codec/cuda/device_seam.h"
#include "kernels/codec/cuda/device_starts.h"
#include "kernels/codec/registry.h"

namespace thinwire {

class DeviceCodec {
 public:
  /// `stack`: matrices of one shape under one another in the tensor (MessageKey::stack). `starts`: shared by codecs of other shapes that
  /// serve the same tensors; its own where null. UsageError naming what has a baseline when this expression has none (wrappers among them:
  /// their arithmetic is thinwire_cuda_residual_add and _store), and as the host codec.
  DeviceCodec(const std::string& expression, const Shape& shape, DeviceSeam seam, Form form = Form::fair, std::int32_t stack = 1,
              std::shared_ptr<DeviceStarts> starts = nullptr);

  std::size_t payload_bytes() const { return payload_bytes_; }
  /// Queues the encoding of x f32[shape]; what is wrong with x is ORed into `status`. RuntimeFailure when it cannot be queued.
  void encode(const float* x, const MessageKey& key, void* payload, std::uint32_t* status);
  /// out = decoded, or += with `add`.
  void decode(const void* payload, const MessageKey& key, float* out, bool add, std::uint32_t* status);

  /// What travels backward, `travel` f32, from the gradient of the decoded tensor, and back. The masked rule (topk, randomk; travel has kept()
  /// numbers) takes the positions of `payload`. The linear map (auto-encoder; [rows, width()]) also adds the gradients of its weights where
  /// it is given what they need: the code in f32 (unpack_code), and the input.
  void decode_backward(const void* payload, const MessageKey& key, const float* gradient, float* travel, std::uint32_t* status,
                       const float* code = nullptr, float* decoder_gradient = nullptr);
  void encode_backward(const void* payload, const MessageKey& key, const float* travel, float* gradient, std::uint32_t* status,
                       const float* x = nullptr, float* encoder_gradient = nullptr);
  std::int64_t kept() const { return kept_; }

  /// Of an auto-encoder's code. Its weights are random and orthonormal until it gets others, encoder [width, columns] and decoder
  /// [columns, width], in device memory of the caller.
  std::int64_t width() const { return width_; }
  void use_weights(const float* encoder, const float* decoder) { left_ = const_cast<float*>(encoder), right_ = const_cast<float*>(decoder); }
  void unpack_code(const void* payload, float* code, std::uint32_t* status);

  /// PowerSGD over ranks, as Codec::begin_round: round 0 sends P, or all values where the matrix travels dense, round 1 sends Q, or nothing.
  /// `received`: what round 0 received (null in round 0). Other codecs reduce their payload.
  std::size_t round_bytes(int round) const;
  void begin_round(int round, const float* x, const MessageKey& key, const void* received, void* send, std::uint32_t* status);
  /// sum f32[shape] from what the rounds received (`received_q` is not looked at where the matrix travels dense).
  void end_rounds(const void* received_p, const void* received_q, const MessageKey& key, int world, float* sum, std::uint32_t* status);

 private:
  enum class Kind { none, cast, quantize, topk, randomk, powersgd, autoencoder };
  const void* index_of(const void* payload) const { return static_cast<const std::byte*>(payload) + kept_ * value_bytes(); }
  std::int64_t value_bytes() const { return half_ ? 2 : 4; }
  void* workspace();
  void make_powersgd(const Parameters& parameters, const Shape& shape);
  void make_autoencoder(const Parameters& parameters);
  void encode_powersgd(const float* x, const MessageKey& key, void* payload, std::uint32_t* status);
  void decode_powersgd(const void* payload, float* out, int add, std::uint32_t* status);
  float* start(const MessageKey& key);
  void keep_start(const MessageKey& key);

  std::string text_;
  Kind kind_ = Kind::none;
  Form form_;
  Shape shape_;              ///< as a matrix; of a stack, one of its matrices
  std::int64_t stack_ = 1;
  DeviceSeam seam_;
  std::int64_t n_ = 0, kept_ = 0, width_ = 0;  ///< width: of an auto-encoder's code, or PowerSGD's rank
  int half_ = 0, bfloat16_ = 0, bits_ = 0, quantize_form_ = 0, index_form_ = 0;
  std::uint64_t seed_ = 0;
  float factor_ = 1;
  bool warm_ = false, dense_ = false, orthogonal_start_ = true, orthogonal_summed_ = true;
  std::size_t payload_bytes_ = 0, workspace_bytes_ = 0;
  void* own_workspace_ = nullptr;
  float *left_ = nullptr, *right_ = nullptr;  ///< PowerSGD: P, and Q of messages that leave no trace; auto-encoder: encoder and decoder
  float* round_start_ = nullptr;              ///< PowerSGD: Q of the rounds under way
  std::shared_ptr<DeviceStarts> starts_;
};

}  // namespace thinwire
