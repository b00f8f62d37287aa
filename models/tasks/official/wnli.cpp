// WNLI (Levesque et al. 2011). Its dev set contradicts its train set; no paper here uses it.
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "wnli";
  task.help = "does a sentence follow when a pronoun is replaced?";
  task.folder = "WNLI";
  task.label = "label";
  task.texts = {"sentence1", "sentence2"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
