// A task of sentences, described by where its files have what. Each is a file that registers itself; nothing lists them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire {

/// How the field of a label is read.
struct Labels {
  int classes = 0;  ///< 0: a score
  /// A class from 0 or a score; nothing: there is no such label.
  std::function<std::optional<double>(std::string_view field)> value;
  std::string wanted;  ///< for errors: "'0' or '1'"
};
/// Classes by their names in the file, numbered as listed.
Labels class_labels(std::vector<std::string> names);
/// A number from `low` to `high`.
Labels score_labels(double low, double high);
/// The whole part of a number from 0 to `classes`; that of the highest number is the last class.
Labels floored_score_labels(int classes);

struct TextTask {
  std::string name, help;
  std::string folder;  ///< of its files, below the folder that the user names
  std::vector<std::string> columns;  ///< of files without a header; empty: the first line names them
  std::string label;                 ///< a column
  std::vector<std::string> texts;    ///< one column or two
  Labels labels;
  std::vector<std::string> metrics;  ///< of models/metrics; the first decides where one number is wanted
  std::vector<std::string> judged = {"dev.tsv"};  ///< files that a model is judged on, each by itself
  /// Rows with another number of fields than there are columns are left out and counted. For files that were released so; else they are errors.
  bool has_broken_rows = false;
};
struct RegisterTextTask {
  explicit RegisterTextTask(TextTask task);
};
/// By name.
std::vector<TextTask> text_tasks();
/// UsageError listing what there is.
TextTask text_task(const std::string& name);

struct Example {
  std::string first, second;  ///< second: empty in a task of one text
  double label = 0;           ///< number of the class, or score
};
struct TaskFile {
  std::string name;  ///< train.tsv
  std::vector<Example> examples;
  std::int64_t broken_rows = 0;
  std::string hash;  ///< SHA-256
};
struct TaskData {
  TaskFile train;
  std::vector<TaskFile> judged;
};

/// All files of a task below `folder`/task.folder. A file is lines of fields with tabs between them; quotation marks are ordinary characters, as GLUE's files
/// have odd ones. EnvironmentError for a file that cannot be read; CorruptData "FILE:LINE:COLUMN: ..." (COLUMN counts bytes from 1) for a column that is
/// missing, a row of too few or many fields, bytes that are no UTF-8, a label that there is not, and a file without rows.
TaskData read_text_task(const TextTask& task, const std::string& folder);

}  // namespace thinwire
