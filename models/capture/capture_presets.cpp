#include "models/capture/capture_presets.h"

namespace thinwire {

CaptureRunOptions capture_preset(const std::string& profile) {
  CaptureRunOptions o;
  // Peak chosen by short runs at hidden 512 (docs/models.md): 1e-3 and above learn slower.
  o.trainer.schedule = {3e-4, 3e-5, 20, 0};
  if (profile == "smoke") {
    o.model.hidden = 128, o.model.heads = 4;
    o.early_step = 5, o.late_step = 60;
    o.tokens_per_step = 512;
    o.plan.shapes = {{8, 128}, {32, 512}};
    o.plan.base_steps = 4, o.plan.replicas = 4, o.plan.other_micro = 1;
    o.trainer.schedule = {1.5e-3, 1e-4, 20, 0};
    o.plan.max_mib = 512;
  } else if (profile == "quick") {
    // Half of the time goes into captured steps: as many replicas and micro-batches as its study needs, no
    // more.
    o.plan.replicas = 4, o.plan.other_micro = 1;
    o.tokens_per_step = 512;
    o.late_step = 320;
  } else if (profile == "standard") {
    o.late_step = 1500;
    o.tokens_per_step = 4096;
  } else if (profile == "full") {
    o.model.hidden = 1024, o.model.heads = 16;
    o.late_step = 6000;
    o.tokens_per_step = 4096;
    o.trainer.schedule = {3e-4, 3e-5, 100, 0};
    o.plan.max_mib = 8192;
  } else {
    throw UsageError("Unknown profile '" + profile + "'. There are: smoke, quick, standard, full.");
  }
  return o;
}

}  // namespace thinwire
