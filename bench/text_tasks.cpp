// text_tasks: the tasks of sentences for fine-tuning, and whether a folder holds their files.
//   text_tasks                                           what there is
//   text_tasks --glue DIR [--task NAME]... [--vocab vocab.txt]     reads the files: rows, labels, what the commonest label scores, lengths
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "models/data/text/wordpiece.h"
#include "models/metrics/metric.h"
#include "models/tasks/text_task.h"

namespace {

using namespace thinwire;

struct Options {
  std::string folder, vocabulary;
  std::vector<std::string> tasks;
  bool cased = false;
};

void print_list() {
  for (const TextTask& task : text_tasks()) {
    std::string metrics;
    for (const std::string& name : task.metrics) metrics += " " + name;
    std::printf("%-13s %-6s %s [%s]\n", task.name.c_str(), task.folder.c_str(), task.help.c_str(), metrics.c_str() + 1);
  }
}

/// What a model scores that has learnt no more than the labels of this file: its commonest label for every row.
void print_commonest(const TextTask& task, const TaskFile& file) {
  std::map<double, std::size_t> counts;
  std::vector<double> wanted;
  for (const Example& example : file.examples) {
    ++counts[example.label];
    wanted.push_back(example.label);
  }
  const auto commonest = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::vector<double> predicted(wanted.size(), commonest->first);
  std::printf(", label %g everywhere:", commonest->first);
  for (const std::string& metric : task.metrics) std::printf(" %s %.4f", metric.c_str(), metric_value(metric, predicted, wanted));
}

void print_lengths(const text::WordPiece& wordpiece, const TaskFile& file) {
  std::size_t sum = 0, longest = 0, unknown = 0, pieces = 0;
  for (const Example& example : file.examples) {
    std::size_t length = 2;  // [CLS], [SEP]
    for (const std::string* one : {&example.first, &example.second}) {
      const auto ids = wordpiece.encode(*one);
      length += ids.size() + (one == &example.second && !one->empty() ? 1 : 0);
      pieces += ids.size();
      unknown += static_cast<std::size_t>(std::count(ids.begin(), ids.end(), wordpiece.vocabulary().unknown()));
    }
    sum += length;
    longest = std::max(longest, length);
  }
  std::printf(", ids %.1f on average, %zu at most, %.3f %% unknown", static_cast<double>(sum) / static_cast<double>(file.examples.size()), longest,
              pieces == 0 ? 0.0 : 100.0 * static_cast<double>(unknown) / static_cast<double>(pieces));
}

void print_task(const TextTask& task, const std::string& folder, const std::optional<text::WordPiece>& wordpiece) {
  const TaskData data = read_text_task(task, folder);
  std::vector<const TaskFile*> files{&data.train};
  for (const TaskFile& file : data.judged) files.push_back(&file);
  for (const TaskFile* file : files) {
    std::printf("%s %s: %zu rows", task.name.c_str(), file->name.c_str(), file->examples.size());
    if (file->broken_rows > 0) std::printf(", %lld broken lines left out", static_cast<long long>(file->broken_rows));
    print_commonest(task, *file);
    if (wordpiece) print_lengths(*wordpiece, *file);
    std::printf(", sha256 %.16s\n", file->hash.c_str());
  }
}

/// The tasks that are asked for; of all, those whose folders are there.
std::vector<TextTask> chosen(const Options& options) {
  std::vector<TextTask> tasks;
  for (const std::string& name : options.tasks) tasks.push_back(text_task(name));
  if (!options.tasks.empty()) return tasks;
  for (const TextTask& task : text_tasks())
    if (std::filesystem::is_directory(options.folder + "/" + task.folder)) tasks.push_back(task);
  if (tasks.empty()) throw EnvironmentError("'" + options.folder + "' holds the folder of no task; text_tasks lists which are looked for");
  return tasks;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Tasks of sentences for fine-tuning: lists them, or reads their files and says what is in them. docs/text.md", "text_tasks");
  app.add_option("--glue", options.folder, "folder with the tasks' folders: GLUE's archive, or what make_tasks.py wrote");
  app.add_option("--task", options.tasks, "these alone")->needs("--glue");
  app.add_option("--vocab", options.vocabulary, "vocab.txt: also lengths in ids")->needs("--glue");
  app.add_flag("--cased", options.cased, "keep capitals and accents")->needs("--vocab");
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (options.folder.empty()) {
    print_list();
    return 0;
  }
  std::optional<text::WordPiece> wordpiece;
  if (!options.vocabulary.empty()) wordpiece.emplace(text::Vocabulary::read(options.vocabulary), options.cased ? text::Case::kept : text::Case::dropped);
  for (const TextTask& task : chosen(options)) print_task(task, options.folder, wordpiece);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return guarded_main(argc, argv, run); }
