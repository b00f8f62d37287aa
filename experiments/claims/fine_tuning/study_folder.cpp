#include "experiments/claims/fine_tuning/study_folder.h"

#include <filesystem>
#include <set>

#include "models/data/dataset.h"
#include "models/stage/model_kind.h"

namespace thinwire::claims {
namespace {

/// "no pre-trained model", "no tasks/", ...: what cells that begin with it need and do not find; empty: nothing.
std::string missing(const JudgeContext& context, const std::string& folder) {
  const std::string study = context.out + "/" + study_folder;
  std::string text;
  const auto require = [&](const std::string& path, const std::string& what) {
    if (!std::filesystem::exists(path)) text += (text.empty() ? "no " : ", no ") + what;
  };
  require(context.out + "/" + folder + "/model.safetensors", "pre-trained model in " + std::filesystem::path(context.out + "/" + folder).parent_path().string());
  require(study + "/tasks", "tasks in " + study);
  require(study + "/vocab.txt", "vocabulary in " + study);
  return text;
}

/// What an option named, by its content, in all cells of the collected file that state it.
std::string archived(const JudgeContext& context, const std::string& option, const std::string& value) {
  // Options are sorted: behind this one stands what it held.
  const std::set<std::string> contents = context.cells.archived_values(option + " " + value + " --" + option + "-sha256");
  if (contents.size() != 1) throw NotCollected("the collected file has cells of " + std::to_string(contents.size()) + " different contents of --" + option + " " + value + "; one is needed");
  return *contents.begin();
}

}  // namespace

std::string pretrained_model(JudgeContext& context, const std::string& folder) {
  if (context.cells.answers_from_file()) return archived(context, "from", folder);
  if (missing(context, folder).empty()) return pretrained_content("bert", context.out + "/" + folder);
  return context.cells.only_plans() ? not_made_yet : "";
}

std::string task_content(JudgeContext& context, const std::string& data) {
  if (context.cells.answers_from_file()) return archived(context, "data", data);
  const std::string study = context.out + "/" + study_folder;
  const bool there = std::filesystem::exists(study + "/tasks") && std::filesystem::exists(study + "/vocab.txt");
  if (!there && context.cells.only_plans()) return not_made_yet;
  return open_data(data, study + "/tasks", /*seed=*/1, /*global_batch=*/1, study + "/vocab.txt").hash;
}

std::string no_pretrained_model(const JudgeContext& context, const std::string& folder, const std::string& options) {
  const std::string out = std::filesystem::path(context.out + "/" + folder).parent_path();
  return "there is " + missing(context, folder) + "; make it (two hours): " + (options.empty() ? "scripts/setup.sh --study && " : "") + "experiments/text_tasks/pretrain.sh --out " + out +
         (options.empty() ? "" : " --text " + context.out + "/" + study_folder + "/corpus " + options);
}

}  // namespace thinwire::claims
