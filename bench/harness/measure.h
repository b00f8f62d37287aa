// Laps: one synchronised execution of an operation on all ranks, and what a row says of many laps.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "bench/harness/bench_program.h"
#include "collectives/channel/channel.h"

namespace thinwire::bench {

/// Reports of all ranks for each repetition: laps[repetition][rank]. total_us is wall time from a common
/// barrier to the rank's end.
using Laps = std::vector<std::vector<OperationReport>>;

/// Runs `body` on all ranks after a barrier and shares the reports. Collective.
std::vector<OperationReport> lap(Communicator& world, const std::function<OperationReport()>& body);

/// How codec work is timed (docs/measuring.md). With more ranks on this machine than cores, work is first
/// measured one rank at a time (serial), then replayed as timed waits around the real transfer.
struct ComputePlan {
  bool timed = false;
  double oversubscription = 0;  ///< ranks of this machine per core
};
ComputePlan compute_plan(Communicator& world);

/// Timed repetitions of the benches whose cells take turns with a shared baseline: --repetitions, 5 where it is 0.
int repetitions_of(const CellParameters& parameters);
/// The options of such a bench in place of those of one that repeats until the noise is small: cells of a study may give all of them.
std::vector<BenchOption> counted_repetitions_options();

/// Measures a codec operation whose first lap was run already, to verify it: in ComputeMode::serial under a timed
/// plan (that lap counts as one of `serial`), else in ComputeMode::real. Then `repetitions` timed laps, in replay
/// under a timed plan. `verified_counts`: the first lap is the first of these, too (an operation without codec work, so
/// that nothing is replayed, on a link whose time is dear).
struct CodecLaps {
  std::vector<OperationReport> alone;  ///< by rank: codec work measured alone (medians of the serial laps)
  Laps timed;
};
CodecLaps measure_codec(Communicator& world, const ComputePlan& plan, int serial, int repetitions,
                        const std::function<void(ComputeMode)>& set_compute, const std::function<OperationReport()>& body,
                        std::vector<OperationReport> verified, bool verified_counts = false);

/// Fills stage times, bytes, ratio, speed-up and break-even of `row` from laps of the codec and of its baseline.
/// Definitions (docs/measuring.md): total = median over repetitions of the maximum over ranks; encode, decode
/// likewise; transfer = total - encode - decode. `baseline_name` names the baseline that was faster. Bytes are means over
/// ranks of a collective, and means over the `messages` of a point-to-point pattern (0: a collective).
void fill_times(results::CellRow& row, const ComputePlan& plan, const CodecLaps& codec, const Laps& baseline, const std::string& baseline_name,
                int messages = 0);

/// One SampleRow per rank and repetition.
void append_samples(std::vector<results::SampleRow>& samples, const results::CellRow& row, const Laps& laps, bool baseline);

/// Median over repetitions of the maximum over ranks of total_us.
double median_total_us(const Laps& laps);

/// Sum of `operations` reports: for a measurement made of several channel operations.
OperationReport combine(std::span<const OperationReport> operations);

/// Waits for all operations, advancing each in turn, so that none waits for another's progress.
void wait_all(std::span<Operation> operations);

}  // namespace thinwire::bench
