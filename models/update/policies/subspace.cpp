// Subspace networks in their constrained form (Protocol Models, arXiv 2506.01260; docs/papers/low_bandwidth_pipeline.md, "Subspace networks"): a policy around any optimizer that keeps the activations
// between layers in a space of k dimensions. What writes them is put back into the span of U at the start and after every update:
//   W <- W U U^T       rows of the projections behind attention and MLP, their biases, positions; of all layers but the last `free` ones
//   E <- (E - F) U U^T + F       the token table: E[t] U is learnt, F[t] is fixed
// Gradients, moments and decay are those of the optimizer inside (`read`: the released code projects weights alone). So X - F[t] stays in the span through every residual, and the codec
// +subspace of the same k (or fraction), deviation and seed sends all of it: U and F are drawn by its rules (row_subspace.h, token_table.h). Which parameters write, the model's geometry says.
// Rows are projected one by one in f64, so that every split of the model gives equal bits; of rows that are cut (grids, --zero-stage) no rank could.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/half.h"
#include "kernels/codec/wrappers/row_subspace.h"
#include "kernels/codec/wrappers/token_table.h"
#include "kernels/matrix/gram_schmidt.h"
#include "models/stage/model_kind.h"
#include "models/training/config/train_config.h"
#include "models/update/update_policy.h"

namespace thinwire {
namespace {

std::int64_t width_of(const Parameters& options, std::int64_t hidden) {
  const std::int64_t k = options.integer("k");
  return k > 0 ? k : std::max<std::int64_t>(1, std::llround(options.real("fraction") * static_cast<double>(hidden)));
}

std::map<std::string, StreamRows> writers(const TrainConfig& c) {
  std::map<std::string, StreamRows> all;
  for (const DeclaredParameter& p : model_geometry(c.model_kind, c.model).parameters())
    if (p.stream != StreamRows::none) all[p.name()] = p.stream;
  return all;
}

template <typename T>
class Subspace final : public UpdatePolicy<T> {
 public:
  explicit Subspace(const UpdateContext<T>& c)
      : hidden_(c.config.model.hidden),
        width_(width_of(c.options, hidden_)),
        clock_(c.clock),
        inner_(make_update_policy<T>(*c.inner, c.config, c.mesh, c.store, c.channels, c.tensor_control, c.clock)) {
    const std::uint64_t seed = c.options.seed_in_run("seed", c.config.model.seed);
    const RowSubspace drawn = RowSubspace::random(hidden_, width_, seed);
    basis_.assign(drawn.basis().begin(), drawn.basis().end());
    std::vector<double> work;
    orthonormal_columns<double>(hidden_, width_, basis_.data(), work);  // of the same span, without f32's rounding
    coordinates_.resize(static_cast<std::size_t>(width_));
    const std::map<std::string, StreamRows> writes = writers(c.config);
    const std::int64_t bound = c.config.model.layers - c.options.integer("free");
    for (const OwnedPart<T>& part : c.store.parts()) {
      const auto found = writes.find(part.parameter->name());
      if (found == writes.end() || part.unit >= bound) continue;
      TW_ASSERT(!part.sharded && part.weights.elements() % hidden_ == 0);
      Kept& kept = kept_.emplace_back(Kept{part.weights, {}});
      if (found->second == StreamRows::by_token) kept.fixed = rows_of_tokens(part.parameter->layout, c.config.model.vocab, {hidden_, c.options.real("deviation"), seed});
    }
    project();
  }

  void begin_step(std::int64_t step) override { inner_->begin_step(step); }
  void expect(int unit) override { inner_->expect(unit); }
  void reduce(int unit, int micro, bool last) override { inner_->reduce(unit, micro, last); }
  void finish_reduction() override {
    inner_->finish_reduction();
    count_waiting_inside();
  }
  NormScope clip_scope() const override { return inner_->clip_scope(); }
  void add_sum_of_squares(double* sum) const override { inner_->add_sum_of_squares(sum); }
  void check_finite() const override { inner_->check_finite(); }
  void finish_step(const StepContext& step) override {
    inner_->finish_step(step);
    count_waiting_inside();
    clock_.run("projection", -1, -1, [&] { project(); });
  }
  bool begin_evaluation() override { return inner_->begin_evaluation(); }
  bool end_evaluation() override { return inner_->end_evaluation(); }
  std::vector<StateSlot> state() override { return inner_->state(); }
  std::vector<StateSlot> weights(std::vector<StateSlot> of_store) override { return inner_->weights(std::move(of_store)); }
  std::map<std::string, double> numbers() const override { return inner_->numbers(); }
  void set_numbers(const std::map<std::string, double>& numbers) override { inner_->set_numbers(numbers); }
  void loaded(std::int64_t steps, bool anew) override { inner_->loaded(steps, anew); }
  void moments_anew(std::int64_t steps) override { inner_->moments_anew(steps); }
  std::vector<typename UpdatePolicy<T>::Told> told() override { return inner_->told(); }

 private:
  struct Kept {
    TensorView weights;           ///< rows of `hidden`
    std::vector<BFloat16> fixed;  ///< F of the first rows; further ones are the vocabulary's padding, which is zero. Empty: F is 0
  };

  std::vector<BFloat16> rows_of_tokens(const ParameterLayout& layout, std::int64_t vocab, TokenTable table) const {
    const AxisRange mine = layout.rows();
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = mine.begin; t < std::min(vocab, mine.begin + mine.count); ++t) tokens.push_back(static_cast<std::int32_t>(t));
    std::vector<const BFloat16*> rows(tokens.size());
    table.rows_of(tokens, rows);
    std::vector<BFloat16> fixed;
    for (const BFloat16* row : rows) fixed.insert(fixed.end(), row, row + hidden_);
    return fixed;
  }

  void project() {
    for (const Kept& kept : kept_) {
      T* row = static_cast<T*>(kept.weights.data());
      const T* const end = row + kept.weights.elements();
      const BFloat16 *fixed = kept.fixed.data(), *const last = fixed + kept.fixed.size();
      for (; row < end; row += hidden_) {
        const bool known = fixed != last;
        project_row(row, known ? fixed : nullptr);
        if (known) fixed += hidden_;
      }
    }
  }

  void project_row(T* w, const BFloat16* fixed) {
    const auto of = [&](std::int64_t i) { return fixed ? static_cast<double>(to_float(fixed[i])) : 0.0; };
    std::fill(coordinates_.begin(), coordinates_.end(), 0.0);
    for (std::int64_t i = 0; i < hidden_; ++i)
      for (std::int64_t j = 0; j < width_; ++j) coordinates_[static_cast<std::size_t>(j)] += (static_cast<double>(w[i]) - of(i)) * basis_[static_cast<std::size_t>(i * width_ + j)];
    for (std::int64_t i = 0; i < hidden_; ++i) {
      double sum = of(i);
      for (std::int64_t j = 0; j < width_; ++j) sum += coordinates_[static_cast<std::size_t>(j)] * basis_[static_cast<std::size_t>(i * width_ + j)];
      w[i] = static_cast<T>(sum);
    }
  }

  void count_waiting_inside() { this->waited_us += std::exchange(inner_->waited_us, 0); }

  std::int64_t hidden_, width_;
  ComputeClock& clock_;
  std::unique_ptr<UpdatePolicy<T>> inner_;
  std::vector<double> basis_, coordinates_;  ///< U [hidden, k]; of a row
  std::vector<Kept> kept_;
};

void check(const TrainConfig& c) {
  const UpdateExpression update = parse_update(c.optimizer);
  const auto refuse = [&](const std::string& what, const std::string& why) { throw UsageError(what + " does not go with --optimizer " + update.name() + ": " + why); };
  const std::int64_t k = width_of(update.options, c.model.hidden), free = update.options.integer("free");
  if (k > c.model.hidden)
    throw UsageError("--optimizer " + c.optimizer + ": a subspace of " + std::to_string(k) + " dimensions is larger than the model's " + std::to_string(c.model.hidden) + "; use k <= hidden, or fraction <= 1");
  if (update.options.integer("k") > 0 && update.options.given("fraction")) throw UsageError("--optimizer " + c.optimizer + ": k and fraction say the same; give one of them");
  if (c.device != DeviceKind::host) refuse("--device cuda", "weights are projected on the host only; use --device host");
  if (c.tensor_parallel != "1d") refuse("--tensor-parallel " + c.tensor_parallel, "a grid cuts the rows that are projected; use --tensor-parallel 1d");
  if (c.zero_stage > 0) refuse("--zero-stage " + std::to_string(c.zero_stage), "it is for weights that every rank of a stage holds whole; use --zero-stage 0");
  if (c.rounds_parameters()) refuse("--param-dtype " + std::string(name_of(*c.param_dtype)), "rounded weights leave the subspace; leave it out");
  if (c.model.dropout > 0) refuse("--dropout", "what is dropped element by element leaves the subspace; use --dropout 0");
  if (writers(c).empty()) refuse("--model " + c.model_kind, "it does not say which of its parameters write the activations between layers; use --model gpt");
  const std::int64_t positions = std::int64_t{c.stages()} * c.virtual_stages, of_last = c.model.layers / positions;
  if (free > (positions > 1 ? of_last : c.model.layers))
    refuse("free=" + std::to_string(free), "layers in front of a boundary would write beyond the subspace; the last position of the pipeline holds " + std::to_string(of_last));
}

const bool registered =
    register_update<Subspace>({.name = "subspace",
                               .summary = "subspace network: weights are projected so that activations between layers stay in a subspace, which the codec +subspace sends whole",
                               .source = "Protocol Models (arXiv 2506.01260), released code",
                               .parameters = {{.name = "k", .kind = ParameterSpec::Kind::integer, .default_value = "0", .minimum = 0, .maximum = 1 << 20, .help = "dimensions of the subspace; 0: from fraction"},
                                              {.name = "fraction", .default_value = "0.15625", .minimum = 1e-6, .maximum = 1, .help = "k as a fraction of the hidden size"},
                                              {.name = "deviation", .default_value = "0.02", .minimum = 1e-6, .maximum = 1e6, .help = "standard deviation of the numbers of F"},
                                              {.name = "seed", .kind = ParameterSpec::Kind::integer, .default_value = "0", .minimum = 0, .maximum = 2147483647, .help = "of U and F, as the codec's; the run's unless given", .seed_of_run = true},
                                              {.name = "free", .kind = ParameterSpec::Kind::integer, .default_value = "1", .minimum = 0, .maximum = 1 << 20, .help = "last layers that are left as they are"}},
                               .drives_another = true,
                               .keeps_together = true,
                               .classes = [](const TrainConfig&) { return std::set<TrafficClass>(); },
                               .check = check});

}  // namespace
}  // namespace thinwire
