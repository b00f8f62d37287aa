// Trains a GPT on real text and captures what its parallel training would send: the engine of
// capture_traffic.
#pragma once

#include <functional>
#include <string>

#include "models/capture/capture_plan.h"
#include "models/data/corpus.h"
#include "models/gpt/trainer.h"
#include "results/row.h"

namespace thinwire {

struct CaptureRunOptions {
  GptConfig model;
  TrainerOptions trainer;
  CapturePlanOptions plan;              ///< hidden, layers and vocab are taken from `model`
  std::string out;                      ///< the capture file
  std::int64_t early_step = 20;         ///< training steps before the early point
  std::int64_t late_step = 220;         ///< and before the late point (captured early steps included)
  std::int64_t tokens_per_step = 1024;  ///< of a plain training step
};

struct CaptureSummary {
  CaptureInfo info;
  std::int64_t bytes = 0, tensors = 0, training_steps = 0, parameters = 0;
  double validation_loss = 0;
  double training_seconds = 0, capture_seconds = 0;
  double tokens_per_second = 0;  ///< median over plain training steps
  std::vector<PlannedSlot> left_out;
};

/// `progress(step, total, loss)` after every step. The file appears complete or not at all.
CaptureSummary run_capture(const Corpus& corpus, const CaptureRunOptions& options,
                           const std::function<void(std::int64_t, std::int64_t, double)>& progress = {});

/// Share of a training step spent in matrix products.
struct StepProfile {
  std::int64_t batch = 0, seq = 0;
  double step_seconds = 0, gemm_seconds = 0, gemm_gflops = 0, tokens_per_second = 0;
  double share() const { return gemm_seconds / step_seconds; }
};
/// Median step of `repetitions` after one untimed, for each shape.
std::vector<StepProfile> profile_steps(const Corpus& corpus, const GptConfig& model,
                                       const std::vector<CaptureShape>& shapes, int repetitions);

}  // namespace thinwire
