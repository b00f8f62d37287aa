#include "models/stage/model_kind.h"

#include <map>

#include "core/joined.h"

namespace thinwire {
namespace {

std::map<std::string, ModelKind>& registry() {
  static std::map<std::string, ModelKind> kinds;
  return kinds;
}

std::string options_of(const std::string& model) {
  const std::size_t colon = model.find(':');
  return colon == std::string::npos ? "" : model.substr(colon + 1);
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
  throw UsageError("--model " + model + ": there is no model of this name; there is " + joined_keys(registry()));
}

bool adds_to_token_loss(const std::string& model) {
  const ModelKind& kind = model_kind(model);
  return kind.adds_to_token_loss && kind.adds_to_token_loss(options_of(model));
}

template <typename T>
std::unique_ptr<Stage<T>> make_stage(const std::string& model, const ModelConfig& config, const ModelPart& part, const StageRuntime<T>& runtime) {
  const ModelKind& kind = model_kind(model);
  if constexpr (std::is_same_v<T, double>)
    return kind.make_f64(config, options_of(model), part, runtime);
  else
    return kind.make_f32(config, options_of(model), part, runtime);
}

namespace {

const Pretrained& pretrained_of(const std::string& model, const std::string& folder) {
  const Pretrained& pretrained = model_kind(model).pretrained;
  if (!pretrained.sizes) throw UsageError("--from " + folder + ": --model " + model + " reads no other program's weights; start it anew");
  return pretrained;
}

}  // namespace

template <typename T>
std::vector<std::string> load_pretrained(const std::string& model, const std::string& folder, const ModelConfig& config, Stage<T>& part) {
  const Pretrained& pretrained = pretrained_of(model, folder);
  if constexpr (std::is_same_v<T, double>)
    return pretrained.load_f64(folder, config, options_of(model), part);
  else
    return pretrained.load_f32(folder, config, options_of(model), part);
}

ModelConfig pretrained_sizes(const std::string& model, const std::string& folder, ModelConfig sizes) {
  pretrained_of(model, folder).sizes(folder, sizes);
  return sizes;
}

std::string pretrained_content(const std::string& model, const std::string& folder) {
  return pretrained_of(model, folder).content(folder);
}

template <typename T>
void save_pretrained(const std::string& model, const std::string& folder, const ModelConfig& config, Stage<T>& whole) {
  const Pretrained& pretrained = model_kind(model).pretrained;
  if (!pretrained.save_f32) throw UsageError("--model " + model + " has no form that other programs read; its weights stay in checkpoints of train_gpt");
  if constexpr (std::is_same_v<T, double>)
    pretrained.save_f64(folder, config, options_of(model), whole);
  else
    pretrained.save_f32(folder, config, options_of(model), whole);
}

Geometry model_geometry(const std::string& model, const ModelConfig& config, const ModelPart& part, const TensorSplit& split) {
  const ModelKind& kind = model_kind(model);
  if (!kind.geometry)
    throw UsageError("--model " + model + " declares no geometry (models/stage/geometry.h): its memory and its arithmetic are not known without running it");
  return kind.geometry(config, options_of(model), part, split);
}

template std::unique_ptr<Stage<float>> make_stage(const std::string&, const ModelConfig&, const ModelPart&, const StageRuntime<float>&);
template std::unique_ptr<Stage<double>> make_stage(const std::string&, const ModelConfig&, const ModelPart&, const StageRuntime<double>&);
template std::vector<std::string> load_pretrained(const std::string&, const std::string&, const ModelConfig&, Stage<float>&);
template std::vector<std::string> load_pretrained(const std::string&, const std::string&, const ModelConfig&, Stage<double>&);
template void save_pretrained(const std::string&, const std::string&, const ModelConfig&, Stage<float>&);
template void save_pretrained(const std::string&, const std::string&, const ModelConfig&, Stage<double>&);

}  // namespace thinwire
