// docs/papers/text_tasks.md, "The tasks"; like MNLI.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "nli";
  task.help = "does a premise entail (0), leave open (1) or contradict (2) a hypothesis?";
  task.folder = "nli";
  task.label = "label";
  task.texts = {"premise", "hypothesis"};
  task.labels = class_labels({"0", "1", "2"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
