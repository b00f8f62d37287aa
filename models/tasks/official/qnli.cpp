// QNLI (Rajpurkar et al. 2016, as pairs by GLUE).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "qnli";
  task.help = "does a sentence answer a question?";
  task.folder = "QNLI";
  task.label = "label";
  task.texts = {"question", "sentence"};
  task.labels = class_labels({"entailment", "not_entailment"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
