// Outcomes of claims: kept as JSON, shown as text.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims {

struct Judged {
  std::string id, statement, provenance, rule, basis;
  std::string profile, when;  ///< under which it was judged; UTC
  Outcome outcome;
};

/// Judges a claim now. A thinwire::Error of the judgement makes it INVALID with the error as the reason.
Judged judge(const Claim& claim, JudgeContext& context);

/// Puts a new verdict among those kept, one per claim. It takes the place of the kept one of the same claim, unless that was judged
/// under a larger profile and is a verdict (not INVALID): then the kept one stays and false is returned. A FAIL always takes its place:
/// a defect of ours is not to be hidden.
bool keep_verdict(std::vector<Judged>& kept, const Judged& now);

std::string to_json(const std::vector<Judged>& judged);
/// CorruptData, naming `where`, for anything that to_json did not write.
std::vector<Judged> from_json(const std::string& text, const std::string& where);
/// One block per claim: id, verdict, basis; statement; measures with interval and margin; reason.
std::string to_text(const std::vector<Judged>& judged);
/// 1 when an exact claim FAILs, which is a defect of ours, else 0.
int exit_status_of(const std::vector<Judged>& judged);

}  // namespace thinwire::claims
