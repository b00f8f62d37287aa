#include "bench/training/mfu.h"

namespace thinwire::bench {

double model_flops_per_token(const GptConfig& model, std::int64_t seq) {
  const auto multiplied = static_cast<double>(model.parameters() - model.max_seq * model.hidden);
  return 6 * multiplied + 12.0 * static_cast<double>(model.layers) * static_cast<double>(model.hidden) * static_cast<double>(seq);
}

double model_gflops(const GptConfig& model, std::int64_t seq, std::int64_t tokens, double step_seconds) {
  return model_flops_per_token(model, seq) * static_cast<double>(tokens) / step_seconds * 1e-9;
}

}  // namespace thinwire::bench
