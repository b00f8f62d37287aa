// The pre-trained model and the tasks that claims fine-tune: OUT/text_study, as experiments/text_tasks/pretrain.sh --out OUT/text_study makes it (a link will do). Cells run in OUT, so
// their parameters name it by relative paths, and the model by its content beside.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/claims/context.h"

namespace thinwire::claims {

inline const std::string study_folder = "text_study";
inline constexpr std::int64_t study_vocabulary = 16000;  ///< pieces: what pretrain.sh learns
inline constexpr std::int64_t study_hidden = 256, study_layers = 4, study_heads = 4;

inline const std::string study_model = study_folder + "/bert";  ///< the one model that most arms begin with
inline const std::string not_made_yet = "not-made-yet";

/// SHA-256 of the pre-trained model (pretrained_content) in this folder of OUT; of the one that all archived cells from there began with, where a collected file answers (NotCollected where
/// there is none, or several). Where a run is only planned, `not_made_yet` stands in the place of a model that is missing. Empty: there is no model, or no tasks or vocabulary beside the study's.
std::string pretrained_model(JudgeContext& context, const std::string& folder = study_model);
/// SHA-256 of a task's files, of the vocabulary and the case, as records have it; of the one that all archived cells of these data (`task:name=NAME`) had, and `not_made_yet`, as above.
std::string task_content(JudgeContext& context, const std::string& data);
/// What to say and do where there is no model: which parts are missing, and pretrain.sh with these options, which makes them.
std::string no_pretrained_model(const JudgeContext& context, const std::string& folder = study_model, const std::string& options = "");

}  // namespace thinwire::claims
