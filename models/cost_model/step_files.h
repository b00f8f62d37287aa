// Machine, model and execution of a predicted step as three small TOML files (docs/step-model.md).
#pragma once

#include <string>

#include "models/cost_model/cluster_model.h"

namespace thinwire {

// Each throws UsageError naming the file, the faulty key, and what may stand there; a file that does not exist is one, too.
ClusterMachine read_cluster_machine(const std::string& path);
ModelShape read_model_shape(const std::string& path);
Execution read_execution(const std::string& path);

}  // namespace thinwire
