// Streaming DiLoCo (Douillard et al., 2025, arXiv 2501.18512; the rules are torchft's, docs/papers/low_communication.md, "Outer steps"): the model in P fragments, of which one at a time is exchanged while
// the inner steps go on. Each has an outer optimizer of its own; at the end of its turn a replica mixes what the outer step gave with what it has done meanwhile.
#include "models/training/config/train_config.h"
#include "models/update/outer/outer_loop.h"

namespace thinwire {
namespace {

FragmentSchedule schedule_of(const Parameters& p) { return {p.integer("inner_steps"), static_cast<int>(p.integer("fragments")), p.integer("overlap")}; }

OuterSettings settings_of(const Parameters& p) {
  return {.step = {.rate = p.real("rate"), .momentum = p.real("momentum"), .nesterov = p.flag("nesterov")},
          .schedule = schedule_of(p),
          .mixing = p.real("mixing"),
          .layout = p.choice("layout") == "strided" ? FragmentLayout::strided : FragmentLayout::blocks};
}

template <typename T>
class StreamingDiLoCo final : public OuterLoop<T> {
 public:
  explicit StreamingDiLoCo(const UpdateContext<T>& c) : OuterLoop<T>(c, settings_of(c.options)) {}
};

void check(const TrainConfig& c) {
  check_outer_loop(c);
  const UpdateExpression update = parse_update(c.optimizer);
  try {
    (void)schedule_of(update.options);
  } catch (const UsageError& error) {
    throw UsageError("--optimizer " + c.optimizer + ": " + error.what());
  }
  if (update.options.integer("fragments") > c.model.layers)
    throw UsageError("--optimizer " + c.optimizer + ": a model of " + std::to_string(c.model.layers) + " layers has no layer for each of " + update.options.choice("fragments") + " fragments");
}

std::vector<ParameterSpec> parameters() {
  std::vector<ParameterSpec> more = momentum_parameters();
  more.push_back({.name = "fragments", .kind = ParameterSpec::Kind::integer, .default_value = "3", .minimum = 1, .maximum = 1e6, .help = "parts of the model that take turns; divides inner_steps"});
  more.push_back({.name = "overlap", .kind = ParameterSpec::Kind::integer, .default_value = "1", .minimum = 0, .maximum = 1e9, .help = "inner steps that go on while a fragment travels"});
  more.push_back({.name = "mixing", .default_value = "0.5", .minimum = 0, .maximum = 1, .help = "share of the local weights that a replica keeps; 0 takes the global ones over"});
  more.push_back({.name = "layout", .kind = ParameterSpec::Kind::choice, .default_value = "blocks", .choices = {"blocks", "strided"}, .help = "layers of a fragment: neighbours, or every P-th"});
  return outer_parameters("0.7", more);
}

const bool registered = register_update<StreamingDiLoCo>(
    {.name = "streaming_diloco",
     .summary =
         "DiLoCo fragment by fragment, each of which travels while inner steps go on (rule outer_gradient)",
     .source = "Douillard et al., Streaming DiLoCo (arXiv 2501.18512); torchft's code",
     .parameters = parameters(),
     .factors = {"replica"},
     .drives_another = true,
     .state_per_element = 2,
     .more_per_element =
         [](const Parameters& p) { return p.integer("overlap") > 0 ? 1.0 / p.real("fragments") : 0.0; },
     .message_share = [](const Parameters& p) { return 1.0 / p.real("fragments"); },
     .classes = outer_classes,
     .channels = outer_channels,
     .check = check});

}  // namespace
}  // namespace thinwire
