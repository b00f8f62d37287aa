// `straight_through`: the gradient of an activation comes back whole, whatever the codec of the activation left out: identity on both ends, as quantisers have it. So a codec for
// the way back chooses for itself what it keeps: the independent masks of Rudakov et al. (arXiv 2401.07788; docs/papers/activation_compression.md, C19), where a sparse codec alone
// shares its mask with the gradient. Payloads are the inner codec's.
#include <utility>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/state.h"

namespace thinwire {
namespace {

class StraightThrough final : public Codec, public State {
 public:
  explicit StraightThrough(std::unique_ptr<Codec> inside) : inner_(std::move(inside)) {
    const CodecTraits& inner = inner_->traits();
    if (!inner.gather) throw UsageError("straight_through: the codec inside has no payload of its own");
    if (inner.backward == BackwardRule::linear_map) throw UsageError("straight_through: the weights of the codec inside learn from the gradient of its code, which would not travel");
    traits_.lossless = inner.lossless;
    traits_.fixed_size = inner.fixed_size;
    traits_.stateful = inner.stateful;
    traits_.reordered_sums = inner.reordered_sums;
    traits_.by_sample = inner.by_sample;
    traits_.most_samples = inner.most_samples;
    traits_.flat = inner.flat;
    traits_.by_token = inner.by_token;
    traits_.positions_first = inner.positions_first;
    traits_.rows_parameter = inner.rows_parameter;
    if (inner.needs_fit) throw UsageError("straight_through: the codec inside is fitted first; use one that needs no fit");
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return inner_->max_payload_bytes(shape); }
  void check_message(const Shape& shape) const override { inner_->check_message(shape); }

  void save_state(StateWriter& to) const override {
    if (const auto* state = std::as_const(*inner_).as<State>()) state->save_state(to);
  }
  void load_state(StateReader& from) override {
    if (auto* state = inner_->as<State>()) state->load_state(from);
  }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override { return inner_->encode(x, key, payload); }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { inner_->decode(payload, key, out); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { inner_->decode_add(payload, key, out); }

  std::unique_ptr<Codec> inner_;
  CodecTraits traits_;
};

const bool registered = register_wrapper({.name = "straight_through",
                                          .summary = "the gradient of an activation comes back whole, not through the mask of what was sent",
                                          .source = "Rudakov et al. (arXiv 2401.07788): masks of their own for activation and gradient",
                                          .wire = "the codec's; back comes a gradient of the whole tensor",
                                          .decorate = [](const Parameters&, std::unique_ptr<Codec> inside) -> std::unique_ptr<Codec> { return std::make_unique<StraightThrough>(std::move(inside)); }});

}  // namespace
}  // namespace thinwire
