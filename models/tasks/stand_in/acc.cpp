// docs/papers/text_tasks.md, "The tasks"; like CoLA.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "acc";
  task.help = "is a sentence as somebody wrote it?";
  task.folder = "acc";
  task.label = "label";
  task.texts = {"sentence"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"matthews"};
  return task;
}());

}  // namespace
}  // namespace thinwire
