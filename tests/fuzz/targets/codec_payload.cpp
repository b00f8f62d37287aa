// Payloads from a wire: every codec gives CorruptData or a tensor, of finite numbers where the codec promises that.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/codec_message.h"

namespace thinwire::fuzz {
namespace {

void read(std::string_view input) {
  const auto [head, rest] = split_first_line(input);
  const std::optional<CodecMessage> message = CodecMessage::parse(head);
  if (!message) return;
  CodecStack stack = message->stack();
  const CodecTraits& traits = stack.codec->traits();
  if (!traits.gather) return;
  // Both end where no more may be read or written: the payload with the input.
  const std::span payload(reinterpret_cast<const std::byte*>(rest.data()), rest.size());
  static AtTheEnd memory;
  const auto elements = static_cast<std::size_t>(message->shape.elements());
  const std::span<float> out(reinterpret_cast<float*>(memory.bytes(elements * sizeof(float))), elements);
  std::fill(out.begin(), out.end(), 1.0f);
  const TensorView to(out.data(), message->shape);
  const MessageKey key = message->key(message->step);
  try {
    stack.codec->decode_add(payload, key.with_pass(Pass::evaluate), to);
    std::fill(out.begin(), out.end(), 1.0f);
  } catch (const CorruptData&) {
  }
  try {
    stack.codec->decode(payload, key, to);
  } catch (const CorruptData&) {
    throw;
  } catch (const RuntimeFailure& error) {
    throw Finding(std::string("a damaged payload gives another error than CorruptData: ") + error.what());
  }
  for (const float v : out)
    if (!std::isfinite(v) && !traits.reordered_sums && !traits.lossless && !traits.identity) throw Finding("decodes to a number that is none");
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const CodecMessage& message : codec_messages()) {
    CodecStack stack = message.stack();
    if (!stack.codec->traits().gather) continue;
    const std::vector<float> x = message.tensor(message.step);
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(message.shape));
    payload.resize(stack.codec->encode(ConstTensorView(x.data(), message.shape), message.key(message.step), payload));
    all.push_back(message.line() + std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  }
  return all;
}

const bool registered = register_target({"codec_payload", "decoders of all codecs and wrappers, of payloads from a wire", 17'000, read, seeds, true});

}  // namespace
}  // namespace thinwire::fuzz
