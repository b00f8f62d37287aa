// DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023, arXiv 2311.08105): replicas take H steps apart, and what they moved on average is the gradient of
// Nesterov's momentum on the global weights. The paper's inner optimizer is AdamW, whose moments stay with their replica.
#include "models/update/outer/outer_loop.h"

namespace thinwire {
namespace {

OuterSettings settings_of(const Parameters& p) {
  return {.step = {.rate = p.real("rate"), .momentum = p.real("momentum"), .nesterov = p.flag("nesterov")}, .schedule = FragmentSchedule(p.integer("inner_steps"), 1, 0)};
}

template <typename T>
class DiLoCo final : public OuterLoop<T> {
 public:
  explicit DiLoCo(const UpdateContext<T>& c) : OuterLoop<T>(c, settings_of(c.options)) {}
};

const bool registered = register_update<DiLoCo>({.name = "diloco",
                                                 .summary = "replicas train apart; their mean movement is a gradient for Nesterov's momentum (rule outer_gradient)",
                                                 .source = "Douillard et al., DiLoCo (arXiv 2311.08105); OpenDiLoCo's code",
                                                 .parameters = outer_parameters("0.7", momentum_parameters()),
                                                 .factors = {"replica"},
                                                 .drives_another = true,
                                                 .state_per_element = 2,
                                                 .classes = outer_classes,
                                                 .channels = outer_channels,
                                                 .check = check_outer_loop});

}  // namespace
}  // namespace thinwire
