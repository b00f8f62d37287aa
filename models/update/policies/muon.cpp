// Muon (Jordan et al. 2024; the rules are those of MuLoCo's code, docs/papers/low_communication.md, "Muon"):
// momentum whose matrices are made orthogonal, on gradients that are averaged in every step and clipped by
// one norm. Of a weight [in, out]:
//   M = m M + G;   W -= lr (sqrt(out / in) U + decay W),   U = M, nearly orthogonal by five steps of Newton
//   and Schulz         Nesterov: U of G + m M
// It takes the matrices of layers, query, key and value as the one matrix that they are here; embeddings,
// head and vectors go by AdamW at the same learning rate. A matrix that is split over ranks (tensor
// parallelism, --zero-stage) keeps its momentum where its rows are updated, and every rank gathers the whole
// to orthogonalise it: no step of it can be taken on a part. With an outer loop of DiLoCo's kind around it,
// it is MuLoCo (Therien et al., arXiv 2505.23725).
#include "kernels/matrix/newton_schulz.h"
#include "kernels/nn/sgd.h"
#include "models/optimizer/gradient_sums.h"
#include "models/update/policies/every_step.h"
#include "models/update/policies/layer_matrices.h"
#include "models/update/policies/momentum_parameter.h"
#include "models/update/policies/whole_matrix.h"

namespace thinwire {
namespace {

template <typename T>
class Muon final : public EveryStep<T> {
 public:
  explicit Muon(const UpdateContext<T>& c)
      : EveryStep<T>(c),
        momentum_(c.options.real("momentum")),
        nesterov_(c.options.flag("nesterov")),
        of_(c.store, c.config),
        all_(adam_parts(c)),
        adamw_(adam_parts(c, of_.rest), c.config.trainer.adamw),
        whole_(c, of_.matrices),
        orthogonaliser_(newton_schulz(c.options.choice("newton_schulz"))) {
    for (const OwnedPart<T>& part : of_.matrices)
      sums_.emplace_back(part.weights.shape(), dtype_of<T>).fill_zero();
  }

  void add_sum_of_squares(double* sum) const override { add_gradient_squares(all_, sum); }
  void check_finite() const override { check_gradients_finite(all_, this->step_); }

  void finish_step(const StepContext& step) override {
    this->clock_.run("optimizer", -1, -1, [&] {
      adamw_.set_steps_taken(step.step, this->moments_begin_);
      adamw_.apply(step.learning_rate, step.gradient_scale);
    });
    for (std::size_t i = 0; i < sums_.size(); ++i) move(i, step);
  }

  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots = moment_slots(of_.rest, adamw_, this->first_stage_);
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const OwnedPart<T>& part = of_.matrices[i];
      StateSlot& slot = slots.emplace_back();
      slot.name = "momentum", slot.value = sums_[i].view();
      slot.owner = part.sharded ? Owner::sharded : Owner::replicated;
      slot.layout = part.parameter->layout, slot.first_row = part.rows.first;
    }
    return slots;
  }

 private:
  // One matrix after another, so that one is whole at a time.
  void move(std::size_t i, const StepContext& step) {
    const OwnedPart<T>& part = of_.matrices[i];
    const ParameterLayout& layout = part.parameter->layout;
    const std::int64_t n = part.weights.elements();
    const int number = static_cast<int>(i);  // each matrix takes its own time
    T *const g = static_cast<T*>(part.gradient.data()), *const u = data_of<T>(sums_[i]);
    this->clock_.run("momentum", number, -1, [&] {
      nn::add_momentum<T>(momentum_, step.gradient_scale, n, g, u);
      if (nesterov_) nn::look_ahead<T>(momentum_, step.gradient_scale, n, g, u, g);
    });
    T* const whole =
        whole_.gather(i, nesterov_ ? part.gradient : sums_[i].view(), step.step, this->waited_us);
    this->clock_.run("orthogonalise", number, -1, [&] {
      orthogonaliser_.apply(layout.global().rows(), layout.global().columns(), whole);
      whole_.take(i, shape_factor(layout), g);
      nn::descend<T>(step.learning_rate, this->decay_of(*part.parameter), n, g,
                     static_cast<T*>(part.weights.data()));
    });
  }

  double momentum_;
  bool nesterov_;
  PartsByKind<T> of_;
  std::vector<OptimizerPart<T>> all_;
  Optimizer<T> adamw_;
  WholeMatrix<T> whole_;
  Orthogonaliser<T> orthogonaliser_;
  std::vector<Tensor> sums_;  ///< M, by matrix
};

std::set<TrafficClass> classes(const TrainConfig& config) {
  std::set<TrafficClass> sent = gradient_classes(config);
  sent.merge(whole_matrix_classes(config));
  return sent;
}

std::vector<ChannelSpec> channels(const TrainConfig& config, ProcessMesh& mesh) {
  std::vector<ChannelSpec> specs = gradient_channels(config, mesh);
  for (ChannelSpec& spec : whole_matrix_channels(config, mesh)) specs.push_back(std::move(spec));
  return specs;
}

void check(const TrainConfig& c) {
  require_host(c, "muon");
  if (const auto rule = c.compress.find(TrafficClass::optimizer); rule != c.compress.end() && rule->second.active() && !make_codec(rule->second.codec, c.form).codec->traits().gather)
    throw UsageError("compress.optimizer = " + rule->second.codec + " does not go with --optimizer muon: matrices are gathered, not summed, and this codec has no payload of its own; choose another");
  if (c.zero_layout == "flat")
    throw UsageError("--zero-layout flat does not go with --optimizer muon: its shards cut matrices inside rows, and momentum is made orthogonal matrix by matrix; use --zero-layout rows, or --optimizer adamw");
}

const bool registered = register_update<Muon>(
    {.name = "muon",
     .summary = "momentum whose matrices are made orthogonal; embeddings, head and vectors by AdamW",
     .source = "Jordan et al. 2024, Muon; Therien et al., MuLoCo (arXiv 2505.23725), authors' code",
     .parameters = {momentum_parameter("0.95"),
                    {.name = "nesterov",
                     .kind = ParameterSpec::Kind::flag,
                     .default_value = "false",
                     .help = "make G + momentum M orthogonal instead of M"},
                    {.name = "newton_schulz",
                     .kind = ParameterSpec::Kind::choice,
                     .default_value = "muloco",
                     .choices = newton_schulz_names(),
                     .help = "the polynomials: how near to 1 singular values end"}},
     .within_replica = true,
     .state_per_element = 2,
     .state_per_layer_element = [](const Parameters&) { return 1.0; },
     .classes = classes,
     .channels = channels,
     .check = check});

}  // namespace
}  // namespace thinwire
