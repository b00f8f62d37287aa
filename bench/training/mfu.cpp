#include "bench/training/mfu.h"

#include <limits>

#include "models/stage/model_kind.h"

namespace thinwire::bench {

double model_flops_per_token(const std::string& kind, const ModelConfig& model, std::int64_t seq) {
  if (!model_kind(kind).geometry) return std::numeric_limits<double>::quiet_NaN();
  return training_flops_per_token(model_geometry(kind, model), seq);
}

double model_gflops(const std::string& kind, const ModelConfig& model, std::int64_t seq, std::int64_t tokens, double step_seconds) {
  return model_flops_per_token(kind, model, seq) * static_cast<double>(tokens) / step_seconds * 1e-9;
}

}  // namespace thinwire::bench
