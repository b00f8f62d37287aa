// docs/papers/text_tasks.md, "The tasks"; like STS-B.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "sim";
  task.help = "how near are two definitions, from 0 to 5?";
  task.folder = "sim";
  task.label = "score";
  task.texts = {"sentence1", "sentence2"};
  task.labels = score_labels(0, 5);
  task.metrics = {"pearson", "spearman"};
  return task;
}());

}  // namespace
}  // namespace thinwire
