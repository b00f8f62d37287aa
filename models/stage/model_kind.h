// Kinds of models by name. A model registers itself in a file of its own: how a part of it is made, and what the trainer may ask of it. `--model`
// chooses one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/compute_clock.h"
#include "models/parallel/tensor/tensor_grid.h"
#include "models/parallel/tensor/tensor_parallel.h"
#include "models/stage/geometry.h"
#include "models/stage/model_config.h"
#include "models/stage/stage.h"

namespace thinwire {

/// What a part of a model runs on; outlives it.
template <typename T>
struct StageRuntime {
  TensorParallel<T>* tensor = nullptr;
  TensorGrid<T>* grid = nullptr;  ///< null: the tensor group splits layers in one dimension
  ComputeClock* clock = nullptr;
  bool recompute = false;  ///< keep each layer's output alone, and run it again before its backward pass
};

template <typename T>
using StageMaker = std::function<std::unique_ptr<Stage<T>>(const ModelConfig& config, const std::string& options, const ModelPart& part, const StageRuntime<T>& runtime)>;

using GeometryMaker = std::function<Geometry(const ModelConfig& config, const std::string& options, const ModelPart& part, const TensorSplit& split)>;

/// How a model begins with what another program has trained, and becomes what other programs read: a folder, as `--from` names it.
struct Pretrained {
  /// Sets those of `sizes` that the folder states.
  std::function<void(const std::string& folder, ModelConfig& sizes)> sizes;
  /// Values for the parameters of a part, however it is split; returns the names of those that the folder does not have, which stay as they are.
  template <typename T>
  using Loader = std::function<std::vector<std::string>(const std::string& folder, const ModelConfig& config, const std::string& options, Stage<T>& part)>;
  Loader<float> load_f32;
  Loader<double> load_f64;
  /// SHA-256 (hex) of what the folder holds of a model.
  std::function<std::string(const std::string& folder)> content = {};
  /// Writes a whole model on one rank into an existing folder.
  template <typename T>
  using Saver = std::function<void(const std::string& folder, const ModelConfig& config, const std::string& options, Stage<T>& whole)>;
  Saver<float> save_f32 = {};
  Saver<double> save_f64 = {};
};

/// Some kind of model. Makers throw UsageError for options and runtimes that the model does not know.
struct ModelKind {
  std::string name, help;
  StageMaker<float> make_f32;
  StageMaker<double> make_f64;
  GeometryMaker geometry = {};  ///< null: nobody can say what the model costs without running it
  Pretrained pretrained = {};   ///< null functions: it reads no other program's weights
  /// Whether with these options other losses are added to the mean over tokens, so that e to the sum is no perplexity; null: none is.
  std::function<bool(const std::string& options)> adds_to_token_loss = {};
};
struct RegisterModel {
  explicit RegisterModel(ModelKind kind);
};
/// By name.
std::vector<ModelKind> model_kinds();
/// `model`: NAME[:options]. UsageError listing what there is.
const ModelKind& model_kind(const std::string& model);

bool adds_to_token_loss(const std::string& model);

/// The part of a model that a pipeline position holds.
template <typename T>
std::unique_ptr<Stage<T>> make_stage(const std::string& model, const ModelConfig& config, const ModelPart& part, const StageRuntime<T>& runtime);

/// What the folder gives to a part of the model, before anything reads its parameters. UsageError for a kind of model that reads none.
template <typename T>
std::vector<std::string> load_pretrained(const std::string& model, const std::string& folder, const ModelConfig& config, Stage<T>& part);
/// `sizes` with those that the folder states. UsageError likewise.
ModelConfig pretrained_sizes(const std::string& model, const std::string& folder, ModelConfig sizes);
/// SHA-256 (hex) of the model in the folder: equal folders have equal ones, wherever they lie. UsageError likewise; EnvironmentError where a file cannot be read.
std::string pretrained_content(const std::string& model, const std::string& folder);
/// Writes a whole model into an existing folder, for --from and for other programs. UsageError for a kind of model that has no form of theirs.
template <typename T>
void save_pretrained(const std::string& model, const std::string& folder, const ModelConfig& config, Stage<T>& whole);

/// What that part is in numbers, on one of the ranks that split it. UsageError for a kind of model that declares none.
Geometry model_geometry(const std::string& model, const ModelConfig& config, const ModelPart& part = {}, const TensorSplit& split = {});

}  // namespace thinwire
