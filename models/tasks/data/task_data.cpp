// `--data task:name=NAME`: a task of models/tasks to fine-tune on, from the files below --text, in the pieces of --vocabulary.
#include "core/error.h"
#include "core/joined.h"
#include "core/random.h"
#include "core/sha256.h"
#include "kernels/codec/registry.h"
#include "models/tasks/data/task_samples.h"

namespace thinwire {
namespace {

using Kind = ParameterSpec::Kind;

std::vector<std::string> names_of_tasks() {
  std::vector<std::string> names;
  for (const TextTask& task : text_tasks()) names.push_back(task.name);
  return names;
}

Parameters read_options(const std::string& options) {
  const std::vector<std::string> names = names_of_tasks();
  if (!options.starts_with("name=") && options.find(",name=") == std::string::npos)
    throw UsageError("--data task: which one? task:name=NAME; there is " + joined(names));
  const NamedSchema schema{"task",
                           {{.name = "name", .kind = Kind::choice, .default_value = names.front(), .choices = names},
                            {.name = "case", .kind = Kind::choice, .default_value = "dropped", .choices = {"dropped", "kept"}}}};
  return parse_named("task:" + options, {schema}, "data").parameters;
}

/// "dev.tsv" without its ending.
std::string stem(const std::string& file) { return file.substr(0, file.rfind('.')); }

JudgedSet judged_set(const TextTask& task, TaskFile file, const std::shared_ptr<const TaskReading>& reading) {
  JudgedSet set{stem(file.name), nullptr, {}, task.metrics};
  for (const Example& example : file.examples) set.wanted.push_back(example.label);
  set.samples = std::make_unique<TaskSamples>(reading, std::move(file.examples));
  return set;
}

DataSource open_task(const DataRequest& request) {
  const Parameters given = read_options(request.options);
  const TextTask task = text_task(given.choice("name"));
  const std::string asked = "--data task:" + request.options;
  if (request.path.empty()) throw UsageError(asked + ": in which folder lies " + task.folder + "/train.tsv? Name it by --text");
  if (request.vocabulary.empty()) throw UsageError(asked + ": texts are read in the pieces of a vocabulary; name it by --vocabulary vocab.txt, or by --from the folder that has one");
  const auto letters = given.choice("case") == "kept" ? text::Case::kept : text::Case::dropped;
  text::Vocabulary vocabulary = text::Vocabulary::read(request.vocabulary);
  DataSource source;
  source.vocabulary = vocabulary.size();
  source.predicts_tokens = false;
  std::string content = task.name + "\n" + given.choice("case") + "\n" + vocabulary.hash() + "\n";
  const auto reading =
      std::make_shared<const TaskReading>(TaskReading{text::WordPiece(std::move(vocabulary), letters), task.texts.size() > 1, task.labels.classes == 0, request.global_batch});
  TaskData data = read_text_task(task, request.path);
  content += data.train.hash + "\n";
  const auto rows = static_cast<std::int64_t>(data.train.examples.size());
  source.remark = "task " + task.name + ": learnt from " + std::to_string(rows) + " rows";
  source.training = std::make_unique<TaskSamples>(reading, std::move(data.train.examples), EpochOrder(rows, request.global_batch, request.seed, hash_name("task.training")));
  for (TaskFile& file : data.judged) {
    content += file.hash + "\n";
    source.remark += (source.judged.empty() ? ", judged on " : " and ") + std::to_string(file.examples.size()) + " of " + file.name;
    source.judged.push_back(judged_set(task, std::move(file), reading));
  }
  source.hash = sha256_hex(content);
  return source;
}

const RegisterData task({"task", "a task of sentences (build/bin/text_tasks lists them) from the folders below --text, in pieces of --vocabulary: name=NAME; case=dropped or kept", open_task});

}  // namespace
}  // namespace thinwire
