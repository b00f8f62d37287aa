// RTE (Dagan et al. 2006 and later ones).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "rte";
  task.help = "does a text entail another?";
  task.folder = "RTE";
  task.label = "label";
  task.texts = {"sentence1", "sentence2"};
  task.labels = class_labels({"entailment", "not_entailment"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
