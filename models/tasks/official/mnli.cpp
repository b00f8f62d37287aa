// MNLI (Williams et al. 2018). Judged on texts of the genres of train.tsv (matched) and of others (mismatched).
#include "models/tasks/text_task.h"

namespace thinwire {
namespace {

const RegisterTextTask registered([] {
  TextTask task;
  task.name = "mnli";
  task.help = "does a premise entail, contradict or leave open a hypothesis?";
  task.folder = "MNLI";
  task.label = "gold_label";
  task.texts = {"sentence1", "sentence2"};
  task.labels = class_labels({"contradiction", "entailment", "neutral"});
  task.metrics = {"accuracy"};
  task.judged = {"dev_matched.tsv", "dev_mismatched.tsv"};
  return task;
}());

}  // namespace
}  // namespace thinwire
