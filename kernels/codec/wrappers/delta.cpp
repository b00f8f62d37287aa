// AQ-SGD `delta` (arXiv 2206.01299, first called AC-SGD; docs/papers/activation_compression.md, "AQ-SGD"): both ends of a boundary
// remember what a training sample's tensor was when it last passed, and the codec sees the change.
//   a sample that is new: x travels in full, and both ends remember m = store(x)
//   later: d = x - m;  message = C(d);  what arrives is m + decoded(message), unrounded, and both ends remember m <- store(m + decoded(message))
// Which samples a message holds, both ends know (MessageKey::samples); a message with one that is new travels in full. The authors store f16, and send their first
// epoch in full; their `delta-lowbits` is store=int8 or int4. Ends that compute the same bits hold the same bits. An evaluation sees the codec alone.
// Payload: a byte, 0 for a tensor in full (f32 or f16 values), 1 for a change (the codec's payload).
#include <utility>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/state.h"
#include "kernels/codec/wrappers/sample_cache.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

constexpr std::byte in_full{0}, change{1};

class Delta final : public Codec, public State {
 public:
  Delta(std::unique_ptr<Codec> inside, DType full, CacheType store, bool mapped, std::int64_t limit)
      : inner_(std::move(inside)), full_(full), sent_("delta", "sent", store, mapped, limit), received_("delta", "received", store, mapped, limit) {
    const CodecTraits& inner = inner_->traits();
    if (!inner.gather) throw UsageError("delta: the codec inside has no payload of its own, so no change can be sent by it");
    if (inner.needs_fit) throw UsageError("delta: the codec inside is fitted to tensors, and changes of them are others; use one that needs no fit");
    if (inner_->as<Trainable>() != nullptr) throw UsageError("delta: the weights of the codec inside would learn from activations, and it codes changes of them; use one that does not learn");
    if (inner.by_token) throw UsageError("delta: the codec inside takes off a row what both ends know of its token, and of a change they know nothing; write delta in front of that wrapper");
    traits_.stateful = true;
    traits_.fixed_size = false;
    traits_.by_sample = true;
    traits_.most_samples = limit;
    traits_.reordered_sums = inner.reordered_sums;
    traits_.positions_first = inner.positions_first;
    traits_.rows_parameter = inner.rows_parameter;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return 1 + std::max(inner_->max_payload_bytes(shape), full_.bytes(shape.elements())); }
  void check_message(const Shape& shape) const override { inner_->check_message(shape); }

  void save_state(StateWriter& to) const override {
    sent_.save(to);
    received_.save(to);
    if (const auto* state = std::as_const(*inner_).as<State>()) state->save_state(to);
  }
  void load_state(StateReader& from) override {
    sent_.load(from);
    received_.load(from);
    if (auto* state = inner_->as<State>()) state->load_state(from);
  }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    if (key.pass != Pass::train) return inner_->encode(x, key, payload);
    now_.reshape(x.shape());
    if (!sent_.knows(key, x.shape())) {
      const std::size_t bytes = full_.bytes(x.elements());
      payload[0] = in_full;
      full_.write(x.as<float>(), payload.subspan(1, bytes), "the tensor", key, x);
      const std::span<const float> arrives = full_.read(payload.subspan(1, bytes), "the tensor", key);
      sent_.write(key, ConstTensorView(arrives.data(), x.shape()));
      return 1 + bytes;
    }
    if (!all_finite(x.as<float>())) check_finite(x, text_of(key));
    change_.reshape(x.shape());
    sent_.read(key, now_.view());
    subtract_values(change_.view(), x, std::as_const(now_).view());
    payload[0] = change;
    const std::size_t bytes = inner_->encode(std::as_const(change_).view(), key, payload.subspan(1));
    inner_->decode(payload.subspan(1, bytes), key.with_pass(Pass::evaluate), change_.view());  // a look at the own message
    add_values(change_.view(), std::as_const(now_).view());
    sent_.write(key, std::as_const(change_).view());
    return 1 + bytes;
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    if (key.pass != Pass::train) return inner_->decode(payload, key, out);
    if (payload.empty() || (payload[0] != in_full && payload[0] != change))
      throw CorruptData("delta: " + text_of(key) + " begins with neither a change nor a whole tensor: the payload is damaged");
    const bool known = received_.knows(key, out.shape());
    if (known != (payload[0] == change))
      throw CorruptData("delta: " + text_of(key) + (known ? " comes in full, but its samples have passed before" : " is a change to samples that have not passed before") +
                        ": the payload is damaged, or the ends do not remember the same (did one of them load another checkpoint?)");
    const std::span<const std::byte> body = payload.subspan(1);
    if (!known) {
      check_payload_size(body.size(), full_.bytes(out.elements()), "delta", out.shape(), key);
      const std::span<const float> values = full_.read(body, "the tensor", key);
      copy_values(out, ConstTensorView(values.data(), out.shape()));
    } else {
      now_.reshape(out.shape());
      received_.read(key, now_.view());
      inner_->decode(body, key, out);
      add_values(out, std::as_const(now_).view());
    }
    // The sender remembers the same, and sends nothing that it cannot.
    if (!received_.write_if_it_fits(key, out)) throw CorruptData("delta: " + text_of(key) + " arrives with a value that its sender could not have remembered: the payload is damaged");
  }

  std::unique_ptr<Codec> inner_;
  WireValues full_;
  SampleCache sent_, received_;  ///< one instance may be both ends of a boundary, or send at one and receive at another
  CodecTraits traits_;
  Tensor now_, change_;
};

const bool registered = register_wrapper(
    {.name = "delta",
     .summary = "AQ-SGD: both ends remember each sample's tensor, and the codec sees the change since its last epoch",
     .source = "Wang et al., NeurIPS 2022 (arXiv 2206.01299); released code, compress/delta_modules.py",
     .wire = "a byte, then the codec's payload of the change (1), or the tensor in full where a sample is new (0), f32 or f16",
     .parameters = {{"full", ParameterSpec::Kind::choice, "f32", 0, 0, {"f32", "f16"}, "type of a tensor that travels in full, as those of the first epoch do"},
                    {"samples", ParameterSpec::Kind::integer, "20000", 1, 1e12, {}, "samples of a tensor that are remembered at most"},
                    {"store", ParameterSpec::Kind::choice, "f16", 0, 0, {"f32", "f16", "int8", "int4"}, "type of what is remembered; integers have a step per channel and sample"},
                    {"where", ParameterSpec::Kind::choice, "memory", 0, 0, {"memory", "file"}, "where it is kept; file: mapped files in $TMPDIR"}},
     .point_to_point_only = true,
     .remembers_loss = true,
     .decorate = [](const Parameters& p, std::unique_ptr<Codec> inside) -> std::unique_ptr<Codec> {
       const std::string& store = p.choice("store");
       const CacheType type = store == "f32" ? CacheType::f32 : store == "f16" ? CacheType::f16 : store == "int8" ? CacheType::int8 : CacheType::int4;
       return std::make_unique<Delta>(std::move(inside), p.choice("full") == "f32" ? DType::f32 : DType::f16, type, p.choice("where") == "file", p.integer("samples"));
     }});

}  // namespace
}  // namespace thinwire
