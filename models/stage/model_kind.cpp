#include "models/stage/model_kind.h"

#include <map>

namespace thinwire {
namespace {

std::map<std::string, ModelKind>& registry() {
  static std::map<std::string, ModelKind> kinds;
  return kinds;
}

}  // namespace

RegisterModel::RegisterModel(ModelKind kind) {
  const std::string name = kind.name;
  TW_ASSERT(registry().emplace(name, std::move(kind)).second, "two models of one name");
}

std::vector<ModelKind> model_kinds() {
  std::vector<ModelKind> all;
  for (const auto& [name, kind] : registry()) all.push_back(kind);
  return all;
}

const ModelKind& model_kind(const std::string& model) {
  const auto found = registry().find(model.substr(0, model.find(':')));
  if (found != registry().end()) return found->second;
  std::string known;
  for (const auto& [name, kind] : registry()) known += (known.empty() ? "" : ", ") + name;
  throw UsageError("--model " + model + ": there is no model of this name; there is " + known);
}

template <typename T>
std::unique_ptr<Stage<T>> make_stage(const std::string& model, const ModelConfig& config, const ModelPart& part, const StageRuntime<T>& runtime) {
  const ModelKind& kind = model_kind(model);
  const std::size_t colon = model.find(':');
  const std::string options = colon == std::string::npos ? "" : model.substr(colon + 1);
  if constexpr (std::is_same_v<T, double>)
    return kind.make_f64(config, options, part, runtime);
  else
    return kind.make_f32(config, options, part, runtime);
}

template std::unique_ptr<Stage<float>> make_stage(const std::string&, const ModelConfig&, const ModelPart&, const StageRuntime<float>&);
template std::unique_ptr<Stage<double>> make_stage(const std::string&, const ModelConfig&, const ModelPart&, const StageRuntime<double>&);

}  // namespace thinwire
