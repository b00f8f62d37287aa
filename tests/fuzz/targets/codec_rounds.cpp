// Codecs that sum over ranks by rounds: what a damaged reduction hands them gives an error or a tensor.
#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/codec_message.h"

namespace thinwire::fuzz {
namespace {

constexpr int world = 2;

/// Walks the rounds; `receive` fills what comes back from each.
template <typename Receive>
void reduce(const CodecMessage& message, const Receive& receive) {
  CodecStack stack = make_codec(message.codec, message.form);
  stack.codec->check_message(message.shape);
  const CodecTraits& traits = stack.codec->traits();
  if (traits.rounds == 0 || traits.needs_fit) return;
  auto& rounds = *stack.codec->as<Rounds>();
  const std::vector<float> x = message.tensor(0);
  const MessageKey key = message.key(0);
  for (int r = 0; r < traits.rounds; ++r) {
    const Round round = rounds.begin_round(r, ConstTensorView(x.data(), message.shape), key, world);
    receive(round);
  }
  std::vector<float> out(x.size());
  rounds.end_rounds(key, world, TensorView(out.data(), message.shape));
}

void read(std::string_view input) {
  const auto [head, rest] = split_first_line(input);
  const std::optional<CodecMessage> message = CodecMessage::parse(head);
  if (!message || rest.empty()) return;
  std::size_t at = 0;
  reduce(*message, [&](const Round& round) {
    for (std::byte& b : round.receive) b = static_cast<std::byte>(rest[at++ % rest.size()]);
  });
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const CodecMessage& message : codec_messages()) {
    if (message.step > 0 || message.shape.elements() > 4096) continue;
    std::string received;
    try {
      reduce(message, [&](const Round& round) {
        std::ranges::copy(round.send, round.receive.begin());
        received.append(reinterpret_cast<const char*>(round.send.data()), round.send.size());
      });
    } catch (const Error&) {
      continue;  // one rank alone does not make a sum of two
    }
    if (!received.empty()) all.push_back(message.line() + received);
  }
  return all;
}

const bool registered = register_target({"codec_rounds", "codecs that reduce by rounds, of what a reduction gave", 31'000, read, seeds, true});

}  // namespace
}  // namespace thinwire::fuzz
