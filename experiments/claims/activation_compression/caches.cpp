// activation_compression.C23: both ends of a boundary remember the same bits of every sample (AQ-SGD), for 1 to 8 bits, shuffled order and a last batch that is shorter.
#include <algorithm>

#include "core/random.h"
#include "experiments/claims/activation_compression/cells/sent.h"
#include "experiments/claims/context.h"
#include "kernels/codec/capabilities.h"
#include "kernels/codec/message.h"
#include "kernels/codec/state.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr std::int64_t samples = 10, batch = 4, epochs = 4, tokens = 6, width = 20;

/// The entries of one of its two caches.
std::vector<std::vector<std::byte>> remembered(const CodecStack& stack, const std::string& which) {
  StateWriter writer;
  stack.codec->as<State>()->save_state(writer);
  const std::vector<std::byte> bytes = writer.finish();
  StateReader reader(bytes);
  std::vector<std::vector<std::byte>> entries;
  for (const char* part : {" samples", " values"})
    for (const StateEntry* entry : reader.take(which + part, DType::u8)) entries.emplace_back(entry->bytes.begin(), entry->bytes.end());
  return entries;
}

/// Drawn anew for every epoch.
std::vector<std::int64_t> order_of(std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t s = 0; s < samples; ++s) order.push_back(s);
  const Random random(23, "order of the epoch");
  for (std::int64_t i = samples - 1; i > 0; --i) std::swap(order[static_cast<std::size_t>(i)], order[random.below(static_cast<std::uint64_t>(epoch * samples + i), static_cast<std::uint64_t>(i + 1))]);
  return order;
}

struct Result {
  int compared = 0, different = 0, changes = 0;
};

Result pass_epochs(int bits) {
  const std::string codec = "quantize:packing=neighbour,bits=" + std::to_string(bits) + "+delta";
  CodecStack sender = make_codec(codec), receiver = make_codec(codec);
  MessageScratch scratch;
  Result result;
  MessageKey key;
  key.tensor = hash_name("boundary");
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::vector<std::int64_t> order = order_of(epoch);
    for (std::int64_t first = 0; first < samples; first += batch, ++key.step) {
      const std::int64_t count = std::min(batch, samples - first);
      key.samples = std::span(order).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      const Shape shape{count * tokens, width};
      const Floats x = normal_numbers(shape.elements(), "activation", static_cast<std::uint64_t>(1000 * bits + key.step));
      Floats out(x.size());
      std::vector<std::byte> payload(sender.codec->max_payload_bytes(shape));
      payload.resize(encode_message(sender, ConstTensorView(x.data(), shape), key, payload, scratch));
      decode_message(receiver, payload, key, TensorView(out.data(), shape));
      ++result.compared;
      result.changes += payload.front() == std::byte{1};
      result.different += remembered(sender, "sent") != remembered(receiver, "received");
    }
  }
  return result;
}

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"caches after each message", {"messages", "changes", "different"}, {}};
  Result all;
  for (int bits = 1; bits <= 8; ++bits) {
    const Result r = pass_epochs(bits);
    all.compared += r.compared, all.different += r.different, all.changes += r.changes;
    table.rows.push_back({std::to_string(bits) + " bits", {static_cast<double>(r.compared), static_cast<double>(r.changes), static_cast<double>(r.different)}});
  }
  const auto number = [](const char* name, int value, const char* symbol) { return Measure{name, static_cast<double>(value), no_number, no_number, no_number, "", symbol}; };
  found.measures = {number("messages after which the caches were compared", all.compared, "compared"), number("of them changes of known samples", all.changes, "changes"),
                    number("after which they differed in any bit", all.different, "different")};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim({.id = "activation_compression.C23",
                                        .statement = "AQ-SGD's caches are identical on both ends.",
                                        .provenance = "derived",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"codec", "quantize:packing=neighbour,bits=B+delta, B = 1 to 8, a sender and a receiver"},
                                                              {"samples", "10 of 6 tokens, in batches of 4, 4 and 2, in another order in each of 4 epochs"}},
                                                 .quantities = {{"different", "messages after which what the sender remembers of any sample differs from what the receiver does"},
                                                                {"compared", "messages"},
                                                                {"changes", "messages that carry a change: the others travel in full"}},
                                                 .constants = {{"all", 96, "eight widths, four epochs of three messages"}, {"later", 72, "those of the last three epochs"}},
                                                 .clauses = {{Verdict::pass, "different == 0 && compared == all && changes == later"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
