// Dion (Ahn et al. 2025, arXiv 2504.05295; the authors' code, docs/papers/low_communication.md, "Dion"):
// momentum of which each step takes a part of low rank, orthonormal, and gives back to itself what was not
// taken. Its two factors are all that data-parallel ranks send of a layer's matrix (low_rank_momentum.h):
//   P = orth(mean M_r Q);   S = mean M_r^T P;   M_r -= (1 - mu) P S^T;   W -= lr (sqrt(out / in) P Q^T +
//   decay W)
// All ranks' P travel as one message and all S as another, in class dp_gradient. Every rank keeps the
// momentum of its own gradient. Matrices whose factors are not smaller than themselves are reduced as
// gradients, and then go the same way; with reduction=gradients all are: the dense twin, whose weights are
// the same but for rounding. Embeddings, head and vectors go by AdamW at the same learning rate. Nothing is
// clipped, since no rank knows the mean gradient's norm; what is recorded of local gradients is the root of
// their mean square. Tensor ranks add up what their blocks give, in class `optimizer`.
#include <algorithm>
#include <deque>

#include "collectives/process/rank_clock.h"
#include "core/tensor_names.h"
#include "kernels/nn/sums.h"
#include "models/optimizer/gradient_sums.h"
#include "models/update/policies/every_step.h"
#include "models/update/policies/layer_matrices.h"
#include "models/update/policies/low_rank_momentum.h"

namespace thinwire {
namespace {

constexpr const char *data_name = "dp_gradient",
                     *tensor_name = "factors.tensor";  // the first of gradient_channels

/// Numbers of one side's factors, all matrices one after another.
template <typename T>
struct Packed {
  Tensor local, whole;    ///< this rank's rows; all rows, where tensor ranks have others
  std::int64_t sent = 0;  ///< of `local`, what replicas reduce: the first ones
  T* at(bool all, std::int64_t offset) { return data_of<T>(all ? whole : local) + offset; }
};

template <typename T>
class Dion final : public EveryStep<T> {
 public:
  explicit Dion(const UpdateContext<T>& c)
      : EveryStep<T>(c, [&c](const OwnedPart<T>& part) { return !(is_layer_matrix(part, c.config) && Factors(c).of(part)); }),
        first_tensor_rank_(c.mesh.coordinates().tp == 0),
        ranks_(c.config.mesh.dp),
        rank_(c.mesh.coordinates().dp),
        factors_(c),
        data_(find_channel(c.channels, data_name)),
        tensor_(find_channel(c.channels, tensor_name)),
        of_(c.store, c.config),
        adamw_(adam_parts(c, of_.rest), c.config.trainer.adamw),
        all_(adam_parts(c)) {
    std::ranges::stable_partition(of_.matrices,
                                  [this](const OwnedPart<T>& part) { return sends_factors(part); });
    reduced_ = adam_parts(c, of_.rest, NormScope::all);
    for (OptimizerPart<T> part : adam_parts(c, of_.matrices, NormScope::all)) {
      const ParameterLayout& layout = part.parameter->layout;
      matrices_.push_back({LowRankMomentum<T>(layout, rank_of_fraction(layout.global(), factors_.fraction),
                                              c.options.real("momentum"), c.config.model.seed,
                                              c.config.form == Form::released),
                           layout.counts_in_norm()});
      const Matrix& m = matrices_.back();
      const bool local = sends_factors(of_.matrices[matrices_.size() - 1]);
      part.counts = local ? m.counts : part.counts;
      (local ? local_ : reduced_).push_back(part);
      if (local) left_.sent += m.low.here() * m.low.rank(), right_.sent += m.low.there() * m.low.rank();
    }
    std::int64_t left = 0, right = 0, all_left = 0, all_right = 0;
    for (const Matrix& m : matrices_) {
      const std::int64_t r = m.low.rank();
      left += m.low.here() * r, right += m.low.there() * r, all_left += m.low.long_side() * r,
          all_right += m.low.short_side() * r;
    }
    left_.local.reshape({left}, dtype_of<T>), right_.local.reshape({right}, dtype_of<T>);
    if (tensor_) left_.whole.reshape({all_left}, dtype_of<T>), right_.whole.reshape({all_right}, dtype_of<T>);
  }

  NormScope clip_scope() const override { return NormScope::none; }
  void add_sum_of_squares(double* sum) const override {
    add_gradient_squares(reduced_, sum);
    double* const squares = shaped<double>(own_squares_, {1});
    own_squares_.fill_zero();
    add_gradient_squares(local_, squares);
    nn::add_total<double, double>(1, squares, 1.0, ranks_, sum);
  }
  void check_finite() const override { check_gradients_finite(all_, this->step_); }

  void finish_step(const StepContext& step) override {
    this->clock_.run("optimizer", -1, -1, [&] {
      adamw_.set_steps_taken(step.step, this->moments_begin_);
      adamw_.apply(step.learning_rate, 1.0);
      for_each(left_, false, [&](std::size_t i, Matrix& m, T* y) {
        m.low.add(static_cast<const T*>(of_.matrices[i].gradient.data()));
        m.low.project(y);
      });
    });
    sum(left_, true);
    this->clock_.run("orthonormalise", -1, -1, [&] {
      for_each(left_, tensor_ != nullptr, [&](std::size_t, Matrix& m, T* p) { m.low.orthonormalise(p); });
      std::int64_t at = 0;
      for_each(left_, tensor_ != nullptr, [&](std::size_t, Matrix& m, T* p) {
        m.low.back(p, right_.at(false, at));
        at += m.low.there() * m.low.rank();
      });
    });
    sum(right_, false);
    this->clock_.run("move", -1, -1, [&] {
      std::int64_t at = 0;
      for_each(left_, tensor_ != nullptr, [&](std::size_t i, Matrix& m, T* p) {
        const OwnedPart<T>& part = of_.matrices[i];
        m.low.finish(p, right_.at(tensor_ != nullptr, at), step.learning_rate,
                     shape_factor(part.parameter->layout), this->decay_of(*part.parameter),
                     static_cast<T*>(part.weights.data()));
        at += m.low.short_side() * m.low.rank();
      });
    });
  }

  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots = moment_slots(of_.rest, adamw_, this->first_stage_);
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      StateSlot slot;
      slot.name = "momentum", slot.value = matrices_[i].low.momentum(),
      slot.layout = of_.matrices[i].parameter->layout;
      if (sends_factors(of_.matrices[i]))
        slot.owner = Owner::per_replica, slot.replica = rank_, slot.replicas = ranks_;
      slots.push_back(slot);
      slot = {};
      slot.name = "right_factor", slot.value = matrices_[i].low.right_factor(),
      slot.layout = matrices_[i].low.layout_of_factor();
      slot.copy = !first_tensor_rank_;
      slots.push_back(slot);
    }
    return slots;
  }

 private:
  struct Matrix {
    LowRankMomentum<T> low;
    bool counts;  ///< this tensor rank's block: of copies one alone
  };

  /// Which matrices of layers travel as factors.
  struct Factors {
    explicit Factors(const UpdateContext<T>& c)
        : any(find_channel(c.channels, data_name) && c.options.choice("reduction") == "factors"), fraction(c.options.real("rank_fraction")) {}
    bool of(const OwnedPart<T>& part) const {
      const Shape& global = part.parameter->layout.global();
      return any && pays_as_factors(global, rank_of_fraction(global, fraction));
    }
    bool any;
    double fraction;
  };
  bool sends_factors(const OwnedPart<T>& part) const { return factors_.of(part); }

  /// body(number, matrix, where its left factor's rows lie: all, or those of this rank).
  template <typename Body>
  void for_each(Packed<T>& left, bool all, Body&& body) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      Matrix& m = matrices_[i];
      body(i, m, left.at(all, at));
      at += (all ? m.low.long_side() : m.low.here()) * m.low.rank();
    }
  }

  /// Over replicas the mean, then over tensor ranks the sum of rows that several hold a share of.
  void sum(Packed<T>& side, bool left) {
    MessageKey key;
    key.tensor = tensor_id(left ? "left factors" : "right factors");
    key.step = this->step_;
    const auto reduce = [&](ChannelPair& over, TensorView values) {
      Operation operation = over.dense().all_reduce(values, values, key);
      const std::int64_t begin = RankClock::now_ns();
      operation.wait();
      this->waited_us += static_cast<double>(RankClock::now_ns() - begin) * 1e-3;
    };
    if (side.sent > 0) reduce(*data_, side.local.view().flat_slice(0, side.sent));
    if (!tensor_) return;
    this->clock_.run(left ? "place left factors" : "place right factors", -1, -1, [&] {
      side.whole.fill_zero();
      const T* from = data_of<T>(side.local);
      T* to = data_of<T>(side.whole);
      for (const Matrix& m : matrices_) {
        const std::int64_t r = m.low.rank(), rows = left ? m.low.here() : m.low.there(),
                           first = left ? m.low.first() : m.low.first_there();
        if (m.counts) std::copy_n(from, rows * r, to + first * r);
        from += rows * r, to += (left ? m.low.long_side() : m.low.short_side()) * r;
      }
    });
    reduce(*tensor_, side.whole.view());
  }

  bool first_tensor_rank_;
  int ranks_, rank_;
  Factors factors_;
  ChannelPair *data_, *tensor_;
  PartsByKind<T> of_;
  Optimizer<T> adamw_;
  std::vector<OptimizerPart<T>> all_, reduced_,
      local_;                    ///< of the last two: whose gradients are means, and this rank's own
  std::deque<Matrix> matrices_;  ///< in the order of of_.matrices: first those that travel as factors
  Packed<T> left_, right_;
  mutable Tensor own_squares_;
};

std::vector<ChannelSpec> channels(const TrainConfig& config, ProcessMesh& mesh) {
  std::vector<ChannelSpec> specs = gradient_channels(config, mesh);
  specs.push_back({.name = tensor_name, .traffic = TrafficClass::optimizer, .group = "tensor"});
  return specs;
}

void check(const TrainConfig& c) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw UsageError(what + " does not go with --optimizer dion: " + why);
  };
  if (c.zero_stage > 0)
    refuse("--zero-stage " + std::to_string(c.zero_stage),
           "every rank keeps the momentum of its own whole gradient; use --zero-stage 0");
  require_host(c, "dion", "");
  const UpdateExpression whole = parse_update(c.optimizer);
  const UpdateExpression* update = &whole;  // of dion, whatever is around it
  while (update->inner) update = update->inner.get();
  const Parameters& own = update->options;
  const auto rule = c.compress.find(TrafficClass::dp_gradient);
  if (rule != c.compress.end() && rule->second.active() && own.choice("reduction") == "factors")
    refuse("compress.dp_gradient = " + rule->second.codec,
           "what travels of matrices is two factors already; leave the rule out, or use "
           "dion:reduction=gradients");
}

std::vector<ParameterSpec> parameters() {
  return {{.name = "momentum",
           .default_value = "0.95",
           .minimum = 0,
           .maximum = 1,
           .help = "mu: share of what a step took that stays"},
          {.name = "rank_fraction",
           .default_value = "0.25",
           .minimum = 1e-6,
           .maximum = 1,
           .help = "rank of a step, of the smaller extent of its matrix"},
          {.name = "reduction",
           .kind = ParameterSpec::Kind::choice,
           .default_value = "factors",
           .choices = {"factors", "gradients"},
           .help = "what ranks send of layers' matrices"}};
}

const bool registered = register_update<Dion>(
    {.name = "dion",
     .summary = "orthonormal steps of low rank, of which ranks send the factors; embeddings, head and "
                "vectors by AdamW",
     .source = "Ahn et al., Dion (arXiv 2504.05295); authors' code",
     .parameters = parameters(),
     .state_per_element = 2,
     // M, and at most the right factor of a square matrix.
     .state_per_layer_element = [](const Parameters& p) { return 1 + p.real("rank_fraction"); },
     .classes = gradient_classes,
     .channels = channels,
     .check = check});

}  // namespace
}  // namespace thinwire
