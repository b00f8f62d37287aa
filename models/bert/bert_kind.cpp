// `--model bert[:task=...]`: the BERT of bert.h.
#include "models/bert/bert.h"
#include "models/bert/hugging_face.h"

namespace thinwire {
namespace {

template <typename T>
std::unique_ptr<Stage<T>> make(const ModelConfig& config, const std::string& options, const ModelPart& part, const StageRuntime<T>& runtime) {
  const BertConfig c = bert_config(config, options);
  if (runtime.grid) throw UsageError("--model bert: its layers are split over tensor ranks in one dimension (--tensor-parallel 1d)");
  if (!placement().on_host()) throw UsageError("--model bert: attention in both directions has no form for devices yet (--device host)");
  return std::make_unique<Bert<T>>(c, part, runtime);
}

template <typename T>
std::vector<std::string> load(const std::string& folder, const ModelConfig& config, const std::string& options, Stage<T>& part) {
  return load_hugging_face(folder, bert_config(config, options), part);
}

template <typename T>
void save(const std::string& folder, const ModelConfig& config, const std::string& options, Stage<T>& whole) {
  save_hugging_face(folder, bert_config(config, options), whole);
}

const RegisterModel bert({"bert",
                          "BERT: attention in both directions over padded sequences; task=masked, pretraining, classification or regression, norm=post or pre, gelu=erf or tanh, "
                          "types=N, classes=N",
                          make<float>, make<double>, {}, {hugging_face_sizes, load<float>, load<double>, hugging_face_content, save<float>, save<double>},
                          [](const std::string& options) { return bert_config({}, options).task == BertTask::pretraining; }});

}  // namespace
}  // namespace thinwire
