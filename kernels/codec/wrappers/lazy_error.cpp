// Lazy error propagation `lep`: Optimus-CC (ASPLOS 2023; docs/papers/optimus_cc.md, "The method, as built here"). The residual of one
// compressed message of a stage boundary is added to the next compressed one, which is the next micro-batch's:
//   G_i += e_{i-1};   message = C(G_i);   e_i = G_i - decoded(message)
// Within a mini-batch the weights stand still, so what a weight gradient loses is sum over i of (X_{i+1} - X_i)^T e_i. The released code
// carries the leftover e_M into the next mini-batch, after the weights have moved; `leftover=drop` forgets it.
#include <map>

#include "kernels/codec/registry.h"
#include "kernels/codec/wrappers/residuals.h"
#include "kernels/codec/state.h"

namespace thinwire {
namespace {

class LazyErrorPropagation final : public Wrapper {
 public:
  explicit LazyErrorPropagation(bool carries) : carries_(carries) {}

  bool needs_own_decoded() const override { return true; }
  void before_encode(TensorView x, const MessageKey& key) override {
    begin(key);
    residuals_.add_to(x, 1.0f, key);
  }
  TensorView lend_residual(ConstTensorView x, const MessageKey& key) override {
    begin(key);
    return residuals_.lend(x, key);
  }
  void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) override { residuals_.store(x, own_decoded, key); }
  void after_decode(TensorView, const MessageKey&) override {}
  // Made for messages from stage to stage (the trainer refuses it elsewhere); in a reduction it is error feedback.
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) override {
    residuals_.store(local, own_decoded.elements() == local.elements() ? own_decoded : reduced_mean, key);
  }
  // With leftover=drop nothing outlives a step, and checkpoints lie between steps.
  void save_state(StateWriter& to) const override {
    if (carries_) residuals_.save(to);
  }
  void load_state(StateReader& from) override {
    steps_.clear();
    residuals_.forget_all();
    if (carries_) residuals_.load(from);
  }

 private:
  /// Forgets the leftover of an earlier step where it is not carried.
  void begin(const MessageKey& key) {
    if (carries_ || key.pass != Pass::train) return;
    const auto [step, is_new] = steps_.try_emplace(key.state_key(), key.step);
    if (!is_new && step->second != key.step) residuals_.forget(key);
    step->second = key.step;
  }

  bool carries_;
  std::map<std::uint64_t, std::int64_t> steps_;  ///< of the last message, by key.state_key()
  Residuals residuals_{"lep"};
};

const bool registered = register_wrapper(
    {.name = "lep",
     .summary = "lazy error propagation: what a micro-batch's message lost is added to the next micro-batch's",
     .source = "Song et al., Optimus-CC, ASPLOS 2023 (arXiv 2301.09830); released code, megatron/p2p_communication.py",
     .wire = "the codec's",
     .parameters = {{"leftover", ParameterSpec::Kind::choice, "carry", 0, 0, {"carry", "drop"},
                     "residual of a mini-batch's last message: added to the next mini-batch's first, or forgotten"}},
     .needs_loss = true,
     .point_to_point_only = true,
     .remembers_loss = true,
     .make = [](const Parameters& p, const CodecTraits&) -> std::unique_ptr<Wrapper> {
       return std::make_unique<LazyErrorPropagation>(p.choice("leftover") == "carry");
     }});

}  // namespace
}  // namespace thinwire
