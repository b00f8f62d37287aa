// The frame of policies whose gradients all ranks of a replica average in every step.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/parallel/gradient/gradient_sync.h"
#include "models/update/policies/adam_parts.h"

namespace thinwire {

template <typename T>
class EveryStep : public UpdatePolicy<T> {
 public:
  void begin_step(std::int64_t step) override {
    step_ = step;
    sync_.begin_step(step);
  }
  void expect(int unit) override { sync_.expect(unit); }
  void reduce(int unit, int micro, bool last) override { sync_.unit_done(unit, micro, last); }
  void finish_reduction() override {
    sync_.finish();
    this->waited_us += std::exchange(sync_.waited_us, 0);
  }
  NormScope clip_scope() const override { return mean_gradient_scope_; }
  std::map<std::string, double> numbers() const override {
    if (moments_begin_ == 0) return {};
    return {{"moments_begin", static_cast<double>(moments_begin_)}};
  }
  void set_numbers(const std::map<std::string, double>& numbers) override {
    const auto begin = numbers.find("moments_begin");
    moments_begin_ = begin == numbers.end() ? 0 : static_cast<std::int64_t>(begin->second);
  }
  void moments_anew(std::int64_t steps) override { moments_begin_ = steps; }

 protected:
  /// `averaged`: whether a part is; empty: all are.
  explicit EveryStep(const UpdateContext<T>& c, std::function<bool(const OwnedPart<T>&)> averaged = {})
      : clock_(c.clock),
        first_stage_(c.mesh.first_stage()),
        decay_(c.config.trainer.adamw.weight_decay),
        mean_gradient_scope_(mean_gradient_scope(c.config)),
        sync_(c.config, c.mesh, c.store, c.channels, c.tensor_control, c.clock, std::move(averaged)) {}

  double decay_of(const Parameter<T>& parameter) const { return parameter.decays ? decay_ : 0.0; }

  ComputeClock& clock_;
  const bool first_stage_;
  const double decay_;
  const NormScope mean_gradient_scope_;
  std::int64_t step_ = 0;           ///< the one that was begun last
  std::int64_t moments_begin_ = 0;  ///< the step before which moments were zero
  GradientSync<T> sync_;
};

/// UsageError for a device where the policy's update exists on the host alone. `instead`: what else there is.
inline void require_host(const TrainConfig& config, const std::string& policy, const std::string& instead = ", or --optimizer adamw") {
  if (config.device != DeviceKind::host)
    throw UsageError("--device cuda does not go with --optimizer " + policy + ": its update exists on the host only; use --device host" + instead);
}

}  // namespace thinwire
