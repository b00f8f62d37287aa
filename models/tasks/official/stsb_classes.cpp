// STS-B as the released code of Bian et al. has it: five classes, the whole part of the score, judged by correlations of their numbers
// (docs/papers/activation_compression.md, "Defects of the released code"). A score of 5.0 goes to the class of 4: five classes leave no other (derived).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "stsb_classes";
  task.help = "how alike are two sentences, as five classes?";
  task.folder = "STS-B";
  task.label = "score";
  task.texts = {"sentence1", "sentence2"};
  task.labels = floored_score_labels(5);
  task.metrics = {"pearson", "spearman"};
  return task;
}());

}  // namespace
}  // namespace thinwire
