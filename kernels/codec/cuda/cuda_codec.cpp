#include "kernels/codec/cuda/cuda_codec.h"

#include "kernels/codec/payload/wire_values.h"
#include "kernels/cuda/kernel_abi.h"

namespace thinwire {
namespace {

constexpr std::size_t status_bytes = 16;  // two words, and what aligns copies of them

}  // namespace

CudaCodec::CudaCodec(std::string name, std::unique_ptr<Codec> host) : name_(std::move(name)), host_(std::move(host)), words_(status_bytes) {
  fill_zero_bytes(words_.data(), status_bytes);
  synchronize_placement();  // other streams use them
}

void CudaCodec::check_status(std::array<std::uint32_t, 2> seen, const MessageKey& key) {
  if (seen[0] == 0 && seen[1] == 0) return;
  fill_zero_bytes(words_.data(), status_bytes);
  if ((seen[0] & device_status_non_finite) != 0)
    throw NotRepresentable(name_ + ": " + text_of(key) + " has NaN or infinity; mend the computation that made it, no codec can represent it");
  if (seen[0] != 0)
    throw NotRepresentable(name_ + ": " + text_of(key) +
                           " has a value (or a scale, or a factor) beyond the type on the wire; use an f32 wire or bf16, or scale the tensor");
  throw NonFiniteData(name_ + ": the payload of " + text_of(key) +
                      " is damaged: it holds NaN, infinity or what no encoder writes; or a sum over ranks overflowed (then use an f32 wire or bf16)");
}

const float* CudaCodec::floats(ConstTensorView x) {
  TW_ASSERT(x.dtype() == DType::f32 && x.device() == placement().device);
  return static_cast<const float*>(x.data());
}

std::size_t CudaCodec::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  const std::size_t bytes = max_payload_bytes(x.shape());
  TW_ASSERT(payload.size() >= bytes && words_.device() == placement().device, "a codec works on the device it was made on");
  if (x.elements() == 0)
    queue_empty(x.shape(), payload.first(bytes));
  else
    queue_encode(floats(x), x.shape(), key, payload.first(bytes));
  return bytes;
}

void CudaCodec::queue_empty(const Shape&, std::span<std::byte> payload) { fill_zero_bytes(payload.data(), payload.size()); }

void CudaCodec::expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), name_.c_str(), out.shape(), key);
  if (out.elements() > 0) queue_decode(payload, out.shape(), key, floats(out), add);
}

}  // namespace thinwire
