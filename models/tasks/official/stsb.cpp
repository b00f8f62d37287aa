// STS-B (Cer et al. 2017), as regression.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "stsb";
  task.help = "how alike are two sentences, from 0 to 5?";
  task.folder = "STS-B";
  task.label = "score";
  task.texts = {"sentence1", "sentence2"};
  task.labels = score_labels(0, 5);
  task.metrics = {"pearson", "spearman"};
  return task;
}());

}  // namespace
}  // namespace thinwire
