// docs/papers/text_tasks.md, "The tasks"; like QNLI.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "qst";
  task.help = "does a definition answer (0) a question?";
  task.folder = "qst";
  task.label = "label";
  task.texts = {"question", "sentence"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
