// Error feedback `ef`: Seide et al. 2014; Karimireddy et al., "Error Feedback Fixes SignSGD" (ICML 2019).
//   x += beta * e;   message = C(x);   e = x - decoded(message)
// For codecs whose own contribution has no decoded form of its own (PowerSGD) e = x - reduced mean: local input
// minus *global* result (papers/gradient_compression.md section 2.3). With beta = 1 nothing is lost: over any
// number of steps, applied + stored = received (summed over ranks). The stored part stays bounded only where the codec
// sooner or later sends every direction; a fixed projection (a fitted auto-encoder) never sends what it drops.
#include <cstring>
#include <map>

#include "kernels/codec/registry.h"
#include "kernels/codec/state.h"
#include "kernels/codec/wire_values.h"
#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

class ErrorFeedback final : public Wrapper {
 public:
  ErrorFeedback(float beta, FeedbackSource source) : beta_(beta), source_(source) {}

  bool needs_own_decoded() const override { return source_ == FeedbackSource::own_decoded; }

  // Only training messages are compensated: an evaluation sees the codec alone and leaves no trace.
  void before_encode(TensorView x, const MessageKey& key) override {
    if (key.pass != Pass::train) return;
    const auto found = residuals_.find(key.state_key());
    if (found == residuals_.end()) return;
    check_shape(found->second, x.shape(), key);
    const auto to = x.as<float>();
    const auto e = found->second.as<float>();
    if (beta_ == 1.0f) {
      accumulate(to, e);
      return;
    }
    parallel_for(x.elements(), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) to[static_cast<std::size_t>(i)] += beta_ * e[static_cast<std::size_t>(i)];
    });
  }

  void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) override { store(x, own_decoded, key); }
  void after_decode(TensorView, const MessageKey&) override {}
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) override {
    store(local, source_ == FeedbackSource::own_decoded ? own_decoded : reduced_mean, key);
  }

  void save_state(StateWriter& to) const override {
    for (const auto& [key, residual] : residuals_) to.put("residual", key, residual.shape(), residual.as<float>());
  }
  void load_state(StateReader& from) override {
    residuals_.clear();
    for (const StateEntry* entry : from.take("residual", DType::f32)) {
      Tensor& residual = residuals_[entry->key];
      residual.reshape(entry->shape);
      if (!entry->bytes.empty()) std::memcpy(residual.view().data(), entry->bytes.data(), entry->bytes.size());
    }
  }

 private:
  static void check_shape(const Tensor& residual, const Shape& shape, const MessageKey& key) {
    if (residual.shape() == shape) return;
    throw UsageError("ef: " + text_of(key) + " has shape " + shape.to_string() + ", its residual has " + residual.shape().to_string() +
                     "; give tensors of different shape different names (message keys), and drop a smaller last batch");
  }

  void store(ConstTensorView x, ConstTensorView seen, const MessageKey& key) {
    if (key.pass != Pass::train) return;
    TW_ASSERT(seen.elements() == x.elements(), "error feedback needs the decoded message");
    Tensor& residual = residuals_[key.state_key()];
    if (residual.elements() == 0)
      residual.reshape(x.shape());
    else
      check_shape(residual, x.shape(), key);
    const auto e = residual.as<float>();
    const auto a = x.as<float>(), b = seen.as<float>();
    parallel_for(x.elements(), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        e[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)];
    });
  }

  float beta_;
  FeedbackSource source_;
  std::map<std::uint64_t, Tensor> residuals_;  // by key.state_key()
};

const bool registered = register_wrapper(
    {.name = "ef",
     .summary = "error feedback: what a message lost is added to the next message of the same tensor",
     .source = "Karimireddy et al., ICML 2019 (arXiv 1901.09847); PowerSGD's residual: Vogels et al. 2019",
     .parameters = {{"beta", ParameterSpec::Kind::real, "1", 0, 1, {}, "share of the residual that is kept; below 1 the lost part is forgotten"}},
     .make = [](const Parameters& p, const CodecTraits& traits) -> std::unique_ptr<Wrapper> {
       return std::make_unique<ErrorFeedback>(static_cast<float>(p.real("beta")), traits.feedback);
     }});

}  // namespace
}  // namespace thinwire
