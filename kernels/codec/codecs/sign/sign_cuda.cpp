// `sign` on a device: lines, payload and the order of sums are sign.cpp's, votes are sign_vote.cpp's.
#include <utility>

#include "kernels/codec/codecs/sign/sign.h"
#include "kernels/codec/cuda/cuda_codec.h"

namespace thinwire {
namespace {

class CudaSign : public CudaCodec {
 public:
  CudaSign(std::unique_ptr<Codec> host, const SignOptions& options) : CudaCodec("sign", std::move(host)), options_(options) {}

 protected:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, SignCut, SignScale, void*, double*, std::uint32_t*, int, void*)> entry("thinwire_cuda_sign_encode");
    const SignCut cut = SignLines(shape, options_);
    std::byte* const partials = device_workspace(static_cast<std::size_t>(cut.count * cut.stripes) * sizeof(double));
    entry(x, cut, options_.scale, static_cast<void*>(payload.data()), reinterpret_cast<double*>(partials), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, SignCut, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_sign_decode");
    entry(static_cast<const void*>(payload.data()), SignCut(SignLines(shape, options_)), out, add ? 1 : 0, payload_status());
  }

  SignOptions options_;
};

/// The message is made once, as scales and signs; its signs become counts of 0 or 1.
class CudaSignVote final : public CudaSign, public Rounds {
 public:
  using CudaSign::CudaSign;

  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override {
    static const DeviceEntry<int(const void*, SignCut, int, void*, int, void*)> entry("thinwire_cuda_sign_counts");
    const SignCut cut = SignLines(x.shape(), options_);
    const auto scale_bytes = static_cast<std::size_t>(cut.scales) * sizeof(float);
    if (r == 1) return {{own_.data(), scale_bytes}, {received_scales_.data(), scale_bytes}, DType::f32, ReduceOp::sum};
    const DType type = type_of_votes(world);
    const std::size_t bytes = static_cast<std::size_t>(cut.elements) * size_of(type);
    own_.reserve(cut.payload_bytes());
    sent_.reserve(bytes);
    received_.reserve(bytes);
    received_scales_.reserve(scale_bytes);
    if (cut.elements > 0) {
      queue_encode(floats(x), x.shape(), key, {own_.data(), cut.payload_bytes()});
      entry(static_cast<const void*>(own_.data()), cut, static_cast<int>(size_of(type)), static_cast<void*>(sent_.data()));
    }
    return {{sent_.data(), bytes}, {received_.data(), bytes}, type, ReduceOp::sum};
  }

  void end_rounds(const MessageKey&, int world, TensorView sum) override {
    static const DeviceEntry<int(const void*, const float*, SignCut, int, int, float*, std::uint32_t*, int, void*)> entry("thinwire_cuda_sign_majority");
    if (sum.elements() == 0) return;
    entry(static_cast<const void*>(received_.data()), reinterpret_cast<const float*>(received_scales_.data()), SignCut(SignLines(sum.shape(), options_)),
          static_cast<int>(size_of(type_of_votes(world))), world, floats(sum), payload_status());
  }

  void own_decoded(const MessageKey& key, TensorView out) override {
    if (out.elements() > 0) queue_decode({own_.data(), SignLines(out.shape(), options_).payload_bytes()}, out.shape(), key, floats(out), false);
  }

 private:
  Buffer own_;  ///< the message, whose scales are sent from where they lie
  Buffer sent_, received_, received_scales_;
};

const bool cuda = register_cuda("sign", [](const Parameters& p, Form, std::unique_ptr<Codec> host) -> std::unique_ptr<Codec> {
  if (p.choice("vote") == "majority") return std::make_unique<CudaSignVote>(std::move(host), sign_options(p));
  return std::make_unique<CudaSign>(std::move(host), sign_options(p));
});

}  // namespace
}  // namespace thinwire
