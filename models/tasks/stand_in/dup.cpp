// docs/papers/text_tasks.md, "The tasks"; like QQP.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "dup";
  task.help = "does a replaced word mean the same?";
  task.folder = "dup";
  task.label = "label";
  task.texts = {"sentence1", "sentence2"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"f1", "accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
