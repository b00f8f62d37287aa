#include "experiments/claims/fine_tuning/study_folder.h"

#include <filesystem>
#include <set>

#include "models/stage/model_kind.h"

namespace thinwire::claims {

std::string pretrained_model(JudgeContext& context) {
  if (context.cells.answers_from_file()) {
    const std::set<std::string> models = context.cells.archived_values("from-sha256");
    if (models.size() != 1) throw NotCollected("the collected file has cells that began with " + std::to_string(models.size()) + " pre-trained models; one is needed");
    return *models.begin();
  }
  const std::string folder = context.out + "/" + study_folder + "/bert";
  if (std::filesystem::exists(folder + "/model.safetensors")) return pretrained_content("bert", folder);
  return context.cells.only_plans() ? "not-made-yet" : "";
}

std::string no_pretrained_model(const JudgeContext& context) {
  const std::string folder = context.out + "/" + study_folder;
  return "there is no pre-trained model in " + folder + "; make it (two hours): scripts/setup.sh --study && experiments/text_tasks/pretrain.sh --out " + folder;
}

}  // namespace thinwire::claims
