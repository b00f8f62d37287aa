// `--model gpt[:head=...]`: the GPT of gpt.h, or on a grid of tensor ranks that of grid_gpt.h.
#include "kernels/codec/registry.h"
#include "models/gpt/gpt.h"
#include "models/gpt/gpt_geometry.h"
#include "models/gpt/grid_gpt.h"
#include "models/stage/model_kind.h"

namespace thinwire {
namespace {

const NamedSchema schema{"gpt", {{.name = "head", .kind = ParameterSpec::Kind::choice, .default_value = "tied", .choices = {"tied", "own"}, .help = "the table that logits are made by: the tokens' own, or another"}}};

GptConfig gpt_config(const ModelConfig& sizes, const std::string& options) {
  GptConfig config{sizes};
  config.own_head = parse_named(options.empty() ? "gpt" : "gpt:" + options, {schema}, "model").parameters.choice("head") == "own";
  return config;
}

void refuse_own_head(const GptConfig& config) {
  if (config.own_head) throw UsageError("--model gpt:head=own: a grid of tensor ranks splits the tied table alone; use --tensor-parallel 1d, or head=tied");
}

template <typename T>
std::unique_ptr<Stage<T>> make(const ModelConfig& config, const std::string& options, const ModelPart& part, const StageRuntime<T>& runtime) {
  const GptConfig gpt = gpt_config(config, options);
  if (!runtime.grid) return std::make_unique<Gpt<T>>(gpt, part, GptRuntime<T>{runtime.tensor, runtime.clock, runtime.recompute});
  refuse_own_head(gpt);
  return std::make_unique<GridGpt<T>>(config, part, *runtime.grid, runtime.recompute);
}

Geometry geometry(const ModelConfig& config, const std::string& options, const ModelPart& part, const TensorSplit& split) {
  const GptConfig gpt = gpt_config(config, options);
  if (split.shape.kind != GridKind::one_d) refuse_own_head(gpt);
  return gpt_geometry(gpt, part, split);
}

const RegisterModel gpt({"gpt", "GPT-2: pre-layernorm, causal attention, head=tied or own, the next token's cross-entropy", make<float>, make<double>, geometry});

}  // namespace
}  // namespace thinwire
