// Attempts at a timed cell: one that was measured while others took the machine is set aside, never deleted, and repeated by rule; the least disturbed
// one counts, and its record says how it went with all of them (docs/measuring.md).
#pragma once

#include <string>

#include "results/record.h"

namespace thinwire::claims {

/// Cores. A timed cell beyond it is DISTURBED.
inline constexpr double disturbance_limit = 0.05;
/// Measurements of a timed cell in all, until the least disturbed one has to do. For every claim alike.
inline constexpr int attempts_allowed = 3;

inline bool is_disturbed(double cores) { return cores > disturbance_limit; }
/// Of the attempt whose numbers the record holds, in cores; NaN: unknown (older records, spans too short to tell).
double disturbance_of(const results::CellRecord& record);

/// Whether a timed cell whose record OUT/cells/ID.h5 is there has to be measured again: what set_aside_if_disturbed() would say. Changes nothing.
bool is_to_be_repeated(const std::string& out, const std::string& cell_id);

/// Decides what becomes of the finished record OUT/cells/ID.h5 of a timed cell. True: it was DISTURBED, is OUT/attempts/ID.N.h5 now, and the cell has to
/// be run again. False: it counts; where there were several attempts, it is the least disturbed of them now, has a row of /attempts for each, and
/// OUT/attempts has them all. Attempts of another build than the record's count for nothing and stay. Killed anywhere, the next call goes on.
bool set_aside_if_disturbed(const std::string& out, const std::string& cell_id);

}  // namespace thinwire::claims
