// The step model beside a timed run: the same schedule, the compute times that the run replayed, the bytes that it counted, and a link.
#pragma once

#include <string>

#include "bench/common/train_tables.h"
#include "models/predict/link_model.h"
#include "models/predict/step_model.h"

namespace thinwire::bench {

/// Costs of a step of `run` (medians over its steps, the slowest rank of each stage), every rank alone on a link `link`:
/// - tensor-parallel sums and look-ups block within the passes: bytes over the rate, latency per message of their algorithm, codec work;
/// - boundary messages by the rule of their class (CompressRule::epilogue_only);
/// - gradient sums begin as layers end where the run overlaps them, else after the backward pass;
/// - the rest of the computing (norm, optimizer, packing) follows.
/// Ranks of a node that share a card, and classes that meet on one, are not modelled.
StepCosts step_costs(const TrainRun& run, const LinkModel& link);

/// Two lines: predicted step and its distance from the measured one, and what each part exposes.
std::string describe_prediction(const StepPrediction& prediction, double measured_us, const LinkModel& link);

}  // namespace thinwire::bench
