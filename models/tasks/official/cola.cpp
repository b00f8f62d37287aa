// CoLA (Warstadt et al. 2018): its files have no header.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "cola";
  task.help = "is a sentence acceptable English?";
  task.folder = "CoLA";
  task.columns = {"source", "label", "mark", "sentence"};
  task.label = "label";
  task.texts = {"sentence"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"matthews"};
  return task;
}());

}  // namespace
}  // namespace thinwire
