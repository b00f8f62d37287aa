// States that cells of train_gpt keep for others of the same folder: --keep-at N of the one, --resume kept:ID of the other.
#pragma once

#include <string>

namespace thinwire::results {

/// `folder`: the one that launches name for what cells keep (OUT/resume).
inline std::string kept_state_path(const std::string& folder, const std::string& cell_id) { return folder + "/" + cell_id + ".kept.h5"; }

}  // namespace thinwire::results
