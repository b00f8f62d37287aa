// Gradient descent with momentum on gradients that all data-parallel ranks average in every step, clipped by one global norm:
//   u = m u + g;   w -= lr (u + decay w)          Nesterov: w -= lr (g + m u + decay w)          sign: of that direction every element's sign alone (signSGD, Bernstein et al., ICML 2018)
// DeMo's step (arXiv 2411.19870, docs/papers/low_communication.md, "DeMo") is momentum=0,sign=true on gradients that travel as the largest coefficients of what each rank remembers:
// --compress.dp_gradient chunk_topk:k=32,transform=dct,values=f32+ef:beta=0.999.
// The dense twin of `dgc`. Works with every parameter store. Weight decay (--weight-decay) stands apart from momentum, as AdamW's does (SGDW).
#include "kernels/nn/sgd.h"
#include "models/optimizer/gradient_sums.h"
#include "models/update/policies/every_step.h"
#include "models/update/policies/momentum_parameter.h"

namespace thinwire {
namespace {

template <typename T>
class Sgd final : public EveryStep<T> {
 public:
  explicit Sgd(const UpdateContext<T>& c)
      : EveryStep<T>(c),
        store_(c.store),
        momentum_(c.options.real("momentum")),
        nesterov_(c.options.flag("nesterov")),
        sign_(c.options.flag("sign")),
        parts_(adam_parts(c)) {
    for (const OptimizerPart<T>& part : parts_) sums_.emplace_back(part.weights.shape(), dtype_of<T>).fill_zero();
  }

  void add_sum_of_squares(double* sum) const override { add_gradient_squares(parts_, sum); }
  void check_finite() const override { check_gradients_finite(parts_, this->step_); }

  void finish_step(const StepContext& step) override {
    this->clock_.run("optimizer", -1, -1, [&] {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        const std::int64_t n = parts_[i].weights.elements();
        T *const g = static_cast<T*>(parts_[i].gradient.data()), *const u = data_of<T>(sums_[i]);
        nn::add_momentum<T>(momentum_, step.gradient_scale, n, g, u);
        if (nesterov_) nn::look_ahead<T>(momentum_, step.gradient_scale, n, g, u, g);
        const T* direction = nesterov_ ? g : u;
        if (sign_) nn::signs_of<T>(n, direction, g), direction = g;
        nn::descend<T>(step.learning_rate, this->decay_of(*parts_[i].parameter), n, direction, static_cast<T*>(parts_[i].weights.data()));
      }
    });
  }

  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    const std::vector<OwnedPart<T>>& parts = store_.parts();
    for (std::size_t i = 0; i < parts.size(); ++i) slots.push_back(slot_of(parts[i], "momentum", sums_[i].view(), this->first_stage_));
    return slots;
  }

 private:
  ParameterStore<T>& store_;
  double momentum_;
  bool nesterov_, sign_;
  std::vector<OptimizerPart<T>> parts_;
  std::vector<Tensor> sums_;  ///< u, part by part
};

void check(const TrainConfig& c) {
  require_host(c, "sgd");
}

const bool registered = register_update<Sgd>({.name = "sgd",
                                              .summary = "gradient descent with momentum on gradients that are averaged in every step",
                                              .source = "Polyak 1964; Sutskever et al., ICML 2013",
                                              .parameters = {momentum_parameter("0.9"),
                                                             {.name = "nesterov", .kind = ParameterSpec::Kind::flag, .default_value = "false", .help = "step along g + momentum u instead of u"},
                                                             {.name = "sign", .kind = ParameterSpec::Kind::flag, .default_value = "false", .help = "step by the signs of that direction alone"}},
                                              .within_replica = true,
                                              .state_per_element = 1,
                                              .classes = gradient_classes,
                                              .channels = gradient_channels,
                                              .check = check});

}  // namespace
}  // namespace thinwire
