// The captures behind run_all.sh's profiles. The studies of experiments/studies measure what these hold; a test
// keeps the two in step.
#pragma once

#include <string>

#include "models/capture/capture_run.h"

namespace thinwire {

/// Options of a profile: smoke, quick, standard or full; `out` stays empty. UsageError for any other name.
CaptureRunOptions capture_preset(const std::string& profile);

}  // namespace thinwire
