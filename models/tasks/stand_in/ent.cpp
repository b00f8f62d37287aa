// docs/papers/text_tasks.md, "The tasks"; like RTE.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "ent";
  task.help = "does a premise entail (0) a hypothesis?";
  task.folder = "ent";
  task.label = "label";
  task.texts = {"premise", "hypothesis"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
