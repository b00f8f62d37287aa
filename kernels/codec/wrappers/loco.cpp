// LoCo `loco` (arXiv 2407.04480; docs/papers/sharded_compression.md, "The algorithms, as they are to be built"): error feedback through a low-pass filter, as in
// DeepSpeed.
//   h = x + e;   message = C(h);   e <- beta * e + (1 - beta) * (h - decoded(message)),   and e = 0 after every `reset` messages of a tensor
// Unlike with error feedback not all that is lost comes back: what a step loses adds (1 - beta) of itself to the next ones, and each of those keeps beta. beta = 0
// without resets is `ef`. Where the own contribution has no decoded form (rounds of PowerSGD), the mean that was delivered takes its place. DeepSpeed counts the resets over
// all tensors together, so that most are never reset; here each tensor counts its own.
#include <cstring>
#include <map>

#include "kernels/codec/state.h"
#include "kernels/codec/wrapper_memory.h"
#include "kernels/codec/wrappers/residual_store.h"

namespace thinwire {
namespace {

template <class Memory>  // Residuals, PackedResiduals
class LoCo final : public Wrapper, public KeepsElements {
 public:
  LoCo(Memory errors, float beta, std::int64_t reset) : beta_(beta), reset_(reset), errors_(std::move(errors)) {}

  double bytes_per_element_sent() const override { return errors_.bytes_per_element(); }
  bool needs_own_decoded() const override { return true; }
  void before_encode(TensorView x, const MessageKey& key) override { errors_.add_to(x, 1.0f, key); }
  void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) override {
    if (key.pass != Pass::train) return;
    std::int64_t& messages = messages_[key.state_key()];
    if (++messages == reset_) {
      messages = 0;
      return errors_.forget(key);
    }
    errors_.blend(x, own_decoded, beta_, key);
  }
  void after_decode(TensorView, const MessageKey&) override {}
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) override {
    after_encode(local, own_decoded.elements() > 0 ? own_decoded : reduced_mean, key);
  }

  void save_state(StateWriter& to) const override {
    errors_.save(to);
    for (const auto& [key, messages] : messages_) to.put("messages", key, std::as_bytes(std::span(&messages, 1)));
  }
  void load_state(StateReader& from) override {
    errors_.load(from);
    messages_.clear();
    for (const StateEntry* entry : from.take("messages", DType::u8)) {
      std::int64_t& messages = messages_[entry->key];
      if (entry->bytes.size() != sizeof messages) throw CorruptData("loco: a count of messages has " + std::to_string(entry->bytes.size()) + " bytes");
      std::memcpy(&messages, entry->bytes.data(), sizeof messages);
      if (messages < 0 || (reset_ > 0 && messages >= reset_)) throw CorruptData("loco: a count of messages is " + std::to_string(messages));
    }
  }

 private:
  float beta_;
  std::int64_t reset_;
  Memory errors_;
  std::map<std::uint64_t, std::int64_t> messages_;  ///< since the last reset, by key.state_key()
};

const bool registered = register_wrapper(
    {.name = "loco",
     .summary = "LoCo: a moving average of what messages lost is added to the next message of the same tensor",
     .source = "LoCo (arXiv 2407.04480), as in DeepSpeed: beta 0.8, a reset every 1024 messages, errors in int8",
     .wire = "the codec's",
     .parameters = {{"beta", ParameterSpec::Kind::real, "0.8", 0, 1, {}, "share of the average that a message keeps; 1: nothing is ever fed back"},
                    {"reset", ParameterSpec::Kind::integer, "1024", 0, 1e9, {}, "messages of a tensor after which its error is forgotten; 0: never"},
                    store_parameter("type of the errors in memory, rounded to the nearest")},
     .remembers_loss = true,
     .make = [](const Parameters& p, const CodecTraits&) -> std::unique_ptr<Wrapper> {
       return with_residuals<LoCo>("loco", p, PackedResiduals::Rounding::nearest, static_cast<float>(p.real("beta")), p.integer("reset"));
     }});

}  // namespace
}  // namespace thinwire
