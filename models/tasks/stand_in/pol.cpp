// docs/papers/text_tasks.md, "The tasks"; like SST-2.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "pol";
  task.help = "is a text of good things?";
  task.folder = "pol";
  task.label = "label";
  task.texts = {"sentence"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
