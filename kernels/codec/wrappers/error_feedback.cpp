// Error feedback `ef`: Seide et al. 2014; Karimireddy et al., "Error Feedback Fixes SignSGD" (ICML 2019).
//   x += beta * e;   message = C(x);   e = x - decoded(message)
// In rounds of a codec whose own contribution has no decoded form (PowerSGD) e = x - reduced mean: local input
// minus *global* result (docs/papers/gradient_compression.md, "PowerSGD"). With beta = 1 nothing is lost: over any
// number of steps, applied + stored = received (summed over ranks). The stored part stays bounded only where the codec
// sooner or later sends every direction; a fixed projection (a fitted auto-encoder) never sends what it drops.
// store=bf16, int8 hold e in half or a quarter of the memory (docs/papers/gradient_compression.md, "Residuals of sharded gradients"): what is rounded off e is lost, and zero in the mean.
#include "kernels/codec/state.h"
#include "kernels/codec/wrapper_memory.h"
#include "kernels/codec/wrappers/residual_store.h"

namespace thinwire {
namespace {

template <class Memory>  // Residuals, PackedResiduals
class ErrorFeedback final : public Wrapper, public KeepsElements {
 public:
  ErrorFeedback(Memory residuals, float beta) : beta_(beta), residuals_(std::move(residuals)) {}

  double bytes_per_element_sent() const override { return residuals_.bytes_per_element(); }
  bool needs_own_decoded() const override { return true; }
  void before_encode(TensorView x, const MessageKey& key) override { residuals_.add_to(x, beta_, key); }
  void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) override { residuals_.store(x, own_decoded, key); }
  void after_decode(TensorView, const MessageKey&) override {}
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) override {
    residuals_.store(local, own_decoded.elements() > 0 ? own_decoded : reduced_mean, key);
  }
  void save_state(StateWriter& to) const override { residuals_.save(to); }
  void load_state(StateReader& from) override { residuals_.load(from); }

 private:
  float beta_;
  Memory residuals_;
};

const bool registered = register_wrapper(
    {.name = "ef",
     .summary = "error feedback: what a message lost is added to the next message of the same tensor",
     .source = "Karimireddy et al., ICML 2019 (arXiv 1901.09847); PowerSGD's residual: Vogels et al. 2019",
     .wire = "the codec's",
     .parameters = {{"beta", ParameterSpec::Kind::real, "1", 0, 1, {}, "share of the residual that is kept; below 1 the lost part is forgotten"},
                    store_parameter("type of the residual in memory; bf16 and int8 are rounded stochastically")},
     .remembers_loss = true,
     .make = [](const Parameters& p, const CodecTraits&) -> std::unique_ptr<Wrapper> {
       return with_residuals<ErrorFeedback>("ef", p, PackedResiduals::Rounding::stochastic, static_cast<float>(p.real("beta")));
     }});

}  // namespace
}  // namespace thinwire
