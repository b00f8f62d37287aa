// SST-2 (Socher et al. 2013).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "sst2";
  task.help = "is a review positive?";
  task.folder = "SST-2";
  task.label = "label";
  task.texts = {"sentence"};
  task.labels = class_labels({"0", "1"});
  task.metrics = {"accuracy"};
  return task;
}());

}  // namespace
}  // namespace thinwire
