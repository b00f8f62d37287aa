// MRPC (Dolan and Brockett 2005). Its first column is the label.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "mrpc";
  task.help = "does one sentence paraphrase the other?";
  task.folder = "MRPC";
  task.label = "Quality";
  task.texts = {"#1 String", "#2 String"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"f1", "accuracy", "f1_micro"};
  return task;
}());

}  // namespace
}  // namespace thinwire
