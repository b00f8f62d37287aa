// Outcomes of claims: kept as JSON, shown as text.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/judge.h"

namespace thinwire::claims {

std::string to_json(const std::vector<Judged>& judged);
/// CorruptData, naming `where`, for anything that to_json did not write.
std::vector<Judged> from_json(const std::string& text, const std::string& where);
/// One block per claim: id, verdict, basis; statement; measures with interval and margin; reason.
std::string to_text(const std::vector<Judged>& judged);
}  // namespace thinwire::claims
