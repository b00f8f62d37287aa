// What codecs and wrappers remember, as a checkpoint holds it: the state of another codec, cut or changed, is refused or taken, and the next message is coded.
#include <cstring>

#include "core/error.h"
#include "kernels/codec/state.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/codec_message.h"

namespace thinwire::fuzz {
namespace {

constexpr std::size_t sum_bytes = 8;  ///< at the end of a state; inputs are without, so that mutations get behind the check

void load(CodecStack& stack, std::span<const std::byte> bytes) {
  StateReader from(bytes);
  from.set_scope("codec/");
  if (auto* own = stack.codec->as<State>()) own->load_state(from);
  for (std::size_t i = 0; i < stack.wrappers.size(); ++i) {
    from.set_scope("wrapper " + std::to_string(i) + "/");
    stack.wrappers[i]->load_state(from);
  }
  from.check_all_taken();
}

std::string save(const CodecStack& stack) {
  StateWriter to;
  to.set_scope("codec/");
  if (const auto* own = std::as_const(*stack.codec).as<State>()) own->save_state(to);
  for (std::size_t i = 0; i < stack.wrappers.size(); ++i) {
    to.set_scope("wrapper " + std::to_string(i) + "/");
    stack.wrappers[i]->save_state(to);
  }
  const std::vector<std::byte> bytes = to.finish();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size() - sum_bytes};
}

/// One message from this end to itself, wrappers included: a training step of a pipeline's boundary.
void send(CodecStack& stack, const CodecMessage& message, std::int64_t step) {
  if (!stack.codec->traits().gather) return;
  std::vector<float> x = message.tensor(step), own(x.size());
  const MessageKey key = message.key(step);
  const TensorView view(x.data(), message.shape), decoded(own.data(), message.shape);
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(message.shape));
  stack.before_encode(view, key);
  const std::size_t bytes = stack.codec->encode(view, key, payload);
  stack.codec->decode(std::span(payload).first(bytes), key, decoded);
  stack.after_encode(view, decoded, key);
  stack.after_decode(decoded, key);
}

void read(std::string_view input) {
  const auto [head, rest] = split_first_line(input);
  const std::optional<CodecMessage> message = CodecMessage::parse(head);
  if (!message) return;
  std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(rest.data()), reinterpret_cast<const std::byte*>(rest.data() + rest.size()));
  const std::uint64_t sum = hash_name(rest);
  const auto* at = reinterpret_cast<const std::byte*>(&sum);
  bytes.insert(bytes.end(), at, at + sum_bytes);
  CodecStack stack = make_codec(message->codec, message->form);
  stack.codec->check_message(message->shape);
  load(stack, bytes);
  send(stack, *message, 2);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (CodecMessage message : codec_messages()) {
    if (message.step > 0 || message.shape.elements() > 4096) continue;
    try {
      CodecStack stack = message.stack();
      for (message.step = 0; message.step < 2; ++message.step) send(stack, message, message.step);
      const std::string state = save(stack);
      CodecStack other = make_codec(message.codec, message.form);
      if (other.codec->as<State>() == nullptr && other.wrappers.empty()) continue;
      message.step = 0;
      all.push_back(message.line() + state);
    } catch (const Error&) {
      continue;  // wrappers that want to be told of more than this
    }
  }
  return all;
}

const bool registered = register_target({"codec_state", "saved states of codecs and wrappers", 42'000, read, seeds, true});

}  // namespace
}  // namespace thinwire::fuzz
