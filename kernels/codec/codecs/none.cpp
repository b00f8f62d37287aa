// The identity: payload = the f32 values. Bit-equal to no codec at all, so it shows what the codec path
// itself costs, and reduces by one sum of the values. NaN and infinity pass unchanged: nothing hides them.
#include <cstring>

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

// The same on the host and on devices: it only copies.
class None final : public Codec {
 public:
  None() {
    traits_.lossless = true;
    traits_.rounds = 1;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
  }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(shape.elements()) * sizeof(float);
  }

  std::size_t encode(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    move_bytes(values(x), payload.data(), x.bytes());
    return x.bytes();
  }
  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    check_payload_size(payload.size(), out.bytes(), "none", out.shape(), key);
    move_bytes(payload.data(), values(out), out.bytes());
  }

  Round begin_round(int, ConstTensorView x, const MessageKey&, int) override {
    sent_.reshape(x.shape());
    received_.reshape(x.shape());
    move_bytes(values(x), sent_.view().data(), x.bytes());
    return {{static_cast<const std::byte*>(sent_.view().data()), x.bytes()},
            {static_cast<std::byte*>(received_.view().data()), x.bytes()},
            DType::f32,
            ReduceOp::sum};
  }
  void end_rounds(const MessageKey&, int, TensorView sum) override {
    TW_ASSERT(sum.elements() == received_.elements());
    move_bytes(received_.view().data(), values(sum), sum.bytes());
  }
  void own_decoded(const MessageKey&, TensorView out) override {
    TW_ASSERT(out.elements() == sent_.elements());
    move_bytes(sent_.view().data(), values(out), out.bytes());
  }

 private:
  CodecTraits traits_;
  Tensor sent_, received_;
};

const bool registered =
    register_codec({.name = "none",
                    .summary = "no compression: the f32 values as they are",
                    .source = "the uncompressed baseline, sent through the codec path",
                    .parameters = {},
                    .has_released_form = false,
                    .make = [](const Parameters&, Form) { return std::make_unique<None>(); }});

}  // namespace
}  // namespace thinwire
