// The identity: payload = the f32 values. Bit-equal to no codec at all, so it shows what the codec path
// itself costs, and reduces by one sum of the values. NaN and infinity pass unchanged: nothing hides them.
#include <cstring>

#include "core/device/device_entry.h"
#include "kernels/codec/codecs/dense/none_entries.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

void move_bytes(const void* from, void* to, std::size_t bytes) {
  if (!placement().on_host()) return copy_bytes(to, from, bytes);
  parallel_for(static_cast<std::int64_t>(bytes), 128 * 1024, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

const void* values(ConstTensorView x) {
  TW_ASSERT(x.dtype() == DType::f32 && x.device() == current_device());
  return x.data();
}
void* values(TensorView x) {
  (void)values(ConstTensorView(x));
  return x.data();
}

// The same on the host and on devices: it only copies, but for sums on a device.
class None final : public Codec, public PayloadRounds {
 public:
  None() : PayloadRounds(*this, DType::f32) {
    traits_.lossless = traits_.identity = traits_.flat = true;
    traits_.device_goal = 0.85;
    traits_.rounds = 1;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
  }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(shape.elements()) * sizeof(float);
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    move_bytes(values(x), payload.data(), x.bytes());
    return x.bytes();
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    check_payload_size(payload.size(), out.bytes(), "none", out.shape(), key);
    move_bytes(payload.data(), values(out), out.bytes());
  }

  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    if (placement().on_host() || out.elements() == 0) return Codec::add_payload(payload, key, out);
    check_payload_size(payload.size(), out.bytes(), "none", out.shape(), key);
    static const DeviceEntry<thinwire_cuda_none_decode_fn> decode("thinwire_cuda_none_decode");
    decode(static_cast<const void*>(payload.data()), out.elements(), static_cast<float*>(values(out)), 1);
  }

 private:
  CodecTraits traits_;
};

const bool registered =
    register_codec({.name = "none",
                    .summary = "no compression: the f32 values as they are",
                    .source = "the uncompressed baseline, sent through the codec path",
                    .wire = "the f32 values",
                    .parameters = {},
                    .has_released_form = false,
                    .make = [](const Parameters&, Form) { return std::make_unique<None>(); }});
const bool cuda = register_cuda("none", [](const Parameters&, Form, std::unique_ptr<Codec>) { return std::make_unique<None>(); });

}  // namespace
}  // namespace thinwire
