#include "experiments/claims/fine_tuning/study_folder.h"

#include <filesystem>
#include <set>

#include "models/stage/model_kind.h"

namespace thinwire::claims {

std::string pretrained_model(JudgeContext& context, const std::string& folder) {
  if (context.cells.answers_from_file()) {
    // Options are sorted: behind the folder stands what it held.
    const std::set<std::string> models = context.cells.archived_values("from " + folder + " --from-sha256");
    if (models.size() != 1) throw NotCollected("the collected file has cells that began with " + std::to_string(models.size()) + " pre-trained models of " + folder + "; one is needed");
    return *models.begin();
  }
  const std::string path = context.out + "/" + folder;
  if (std::filesystem::exists(path + "/model.safetensors")) return pretrained_content("bert", path);
  return context.cells.only_plans() ? "not-made-yet" : "";
}

std::string no_pretrained_model(const JudgeContext& context, const std::string& folder, const std::string& options) {
  const std::string out = std::filesystem::path(context.out + "/" + folder).parent_path();
  return "there is no pre-trained model in " + out + "; make it (two hours): " + (options.empty() ? "scripts/setup.sh --study && " : "") + "experiments/text_tasks/pretrain.sh --out " + out +
         (options.empty() ? "" : " --text " + context.out + "/" + study_folder + "/corpus " + options);
}

}  // namespace thinwire::claims
