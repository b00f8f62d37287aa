// `group` on a device: options and layout are group.cpp's.
#include "kernels/codec/codecs/block/group.h"
#include "kernels/codec/cuda/cuda_codec.h"

namespace thinwire {
namespace {

class CudaGroup final : public CudaCodec {
 public:
  CudaGroup(std::unique_ptr<Codec> host, const GroupOptions& options) : CudaCodec("group", std::move(host)), options_(options) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, BlockCut, GroupOptions, std::uint64_t, void*, std::uint32_t*, int, void*)> entry("thinwire_cuda_group_encode");
    entry(x, cut_of(shape), options_, key.rounding_stream(), static_cast<void*>(payload.data()), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, BlockCut, GroupOptions, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_group_decode");
    entry(static_cast<const void*>(payload.data()), cut_of(shape), options_, out, add ? 1 : 0, payload_status());
  }
  BlockCut cut_of(const Shape& shape) const { return {shape.rows(), shape.columns(), options_.layout()}; }

  GroupOptions options_;
};

const bool cuda = register_cuda("group", [](const Parameters& p, Form, std::unique_ptr<Codec> host) { return std::make_unique<CudaGroup>(std::move(host), group_options(p)); });

}  // namespace
}  // namespace thinwire
