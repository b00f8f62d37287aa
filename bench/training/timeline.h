// Spans of all ranks in one step: as rows of /timeline and as a trace that Chrome (chrome://tracing) and
// Perfetto open.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "core/process/trace.h"
#include "results/row.h"

namespace thinwire::bench {

/// Spans as text and back, to bring them to rank 0. Names may hold spaces, not tabs.
std::string to_text(const std::vector<TraceSpan>& spans);

/// Rows of all ranks from their texts, ordered by rank and start; time 0 is the first start of all. cell_id
/// stays empty. CorruptData when a text is damaged.
std::vector<results::TimelineRow> timeline_rows(const std::vector<std::string>& by_rank,
                                                const std::string& plan, const std::string& link);

/// Trace-event format: one process per rank. Work (compute, encode, decode) is its first thread, waiting the
/// second; transfers, which overlap each other, fill as many further ones as are needed.
std::string chrome_trace(const std::vector<results::TimelineRow>& rows, const MeshShape& mesh);

}  // namespace thinwire::bench
