// QQP (Iyer et al. 2017). A few rows of the released train.tsv are broken over lines; published readers leave them out (recollected).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "qqp";
  task.help = "do two questions ask the same?";
  task.folder = "QQP";
  task.label = "is_duplicate";
  task.texts = {"question1", "question2"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"f1", "accuracy", "f1_micro"};
  task.has_broken_rows = true;
  return task;
}());

}  // namespace
}  // namespace thinwire
