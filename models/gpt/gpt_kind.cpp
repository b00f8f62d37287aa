// `--model gpt`: the GPT of gpt.h, or on a grid of tensor ranks that of grid_gpt.h.
#include "models/gpt/gpt_geometry.h"
#include "models/gpt/grid_gpt.h"
#include "models/stage/model_kind.h"

namespace thinwire {
namespace {

void refuse_options(const std::string& options) {
  if (!options.empty()) throw UsageError("--model gpt:" + options + ": a GPT has no options beyond its sizes");
}

template <typename T>
std::unique_ptr<Stage<T>> make(const ModelConfig& config, const std::string& options, const ModelPart& part, const StageRuntime<T>& runtime) {
  refuse_options(options);
  if (runtime.grid) return std::make_unique<GridGpt<T>>(config, part, *runtime.grid, runtime.recompute);
  return std::make_unique<Gpt<T>>(config, part, GptRuntime<T>{runtime.tensor, runtime.clock, runtime.recompute});
}

Geometry geometry(const ModelConfig& config, const std::string& options, const ModelPart& part, const TensorSplit& split) {
  refuse_options(options);
  return gpt_geometry(config, part, split);
}

const RegisterModel gpt({"gpt", "GPT-2: pre-layernorm, causal attention, tied head, the next token's cross-entropy", make<float>, make<double>, geometry});

}  // namespace
}  // namespace thinwire
