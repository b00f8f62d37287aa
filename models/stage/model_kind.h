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

/// Some kind of model. Makers throw UsageError for options and runtimes that the model does not know.
struct ModelKind {
  std::string name, help;
  StageMaker<float> make_f32;
  StageMaker<double> make_f64;
  GeometryMaker geometry = {};  ///< null: nobody can say what the model costs without running it
};
struct RegisterModel {
  explicit RegisterModel(ModelKind kind);
};
/// By name.
std::vector<ModelKind> model_kinds();
/// `model`: NAME[:options]. UsageError listing what there is.
const ModelKind& model_kind(const std::string& model);

/// The part of a model that a pipeline position holds.
template <typename T>
std::unique_ptr<Stage<T>> make_stage(const std::string& model, const ModelConfig& config, const ModelPart& part, const StageRuntime<T>& runtime);

/// What that part is in numbers, on one of the ranks that split it. UsageError for a kind of model that declares none.
Geometry model_geometry(const std::string& model, const ModelConfig& config, const ModelPart& part = {}, const TensorSplit& split = {});

}  // namespace thinwire
