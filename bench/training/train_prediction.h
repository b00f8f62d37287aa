// The step model beside a timed run: the same schedule, the compute times that the run replayed, the bytes that it counted, and a link.
#pragma once

#include <string>

#include "bench/training/train_tables.h"
#include "collectives/link/emulated_network.h"
#include "models/cost_model/cluster_model.h"
#include "models/cost_model/step_model.h"

namespace thinwire::bench {

/// Costs of a step of `run` (medians over its steps, the slowest rank of each stage) on nodes of `machine` (its compute rate is not
/// looked at), whose card the ranks of a node share:
/// - tensor-parallel sums and look-ups block within the passes: bytes over the rate, latency per message of their algorithm, codec work;
/// - boundary messages by the rule of their class (CompressRule::epilogue_only);
/// - gradient sums begin as layers end where the run overlaps them and they do not travel with those of the first layer, else after the backward pass;
/// - of a store that gathers parameters unit by unit, gathers and scattered sums stand where the schedule has them, each unit with the share of its
///   matrices, and share the link where both are under way;
/// - the rest of the computing (norm, optimizer, packing) follows.
/// Other classes that meet on one card are not modelled.
StepCosts step_costs(const TrainRun& run, const ClusterMachine& machine);
/// Nodes and rates of an emulated link.
ClusterMachine machine_of(const EmulatedLink& link);

/// For /training_prediction; cell_id stays empty.
std::vector<results::TrainingPredictionRow> prediction_rows(const StepPrediction& prediction, const std::string& plan, const std::string& link);

/// Two lines: predicted step and its distance from the measured one, and what each part exposes.
std::string describe_prediction(const StepPrediction& prediction, double measured_us, const LinkModel& link);

}  // namespace thinwire::bench
