// Hashes of the sources of claims, as they were when the program was built.
#pragma once

#include <map>
#include <string>

namespace thinwire::claims {

/// SHA-256 by path in the repository ("experiments/claims/optimus_cc/telescoping.cpp").
const std::map<std::string, std::string>& source_hashes();

}  // namespace thinwire::claims
