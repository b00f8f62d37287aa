// Files of sentences: tasks (TSV), vocabularies, and the words that are cut out of any text.
#include "core/error.h"
#include "models/data/text/encode_text.h"
#include "models/data/text/learn_vocabulary.h"
#include "models/data/text/vocabulary.h"
#include "models/data/text/wordpiece.h"
#include "models/tasks/text_task.h"
#include "tests/fuzz/target.h"

#include <filesystem>

namespace thinwire::fuzz {
namespace {

/// The first line names the task, the rest is each of its files.
void read_task(std::string_view input) {
  const auto [name, rest] = split_first_line(input);
  const TextTask task = text_task(std::string(name));
  std::filesystem::path folder;
  for (std::string file : task.judged) folder = std::filesystem::path(as_file("task/" + task.folder + "/" + file, rest)).parent_path();
  as_file("task/" + task.folder + "/train.tsv", rest);
  while (folder.filename() != "task") folder = folder.parent_path();
  for (const Example& example : read_text_task(task, folder).train.examples)
    if (task.labels.classes > 0 && !(example.label >= 0 && example.label < task.labels.classes)) throw Finding("a class that there is not: " + std::to_string(example.label));
}

/// A row that the task accepts: the label is one that it names.
std::vector<std::string> task_seeds() {
  std::vector<std::string> all;
  for (const TextTask& task : text_tasks()) {
    std::vector<std::string> columns = task.columns;
    std::string text = task.name + "\n", row;
    if (columns.empty()) {
      columns = task.texts;
      columns.push_back(task.label);
      for (std::size_t i = 0; i < columns.size(); ++i) text += (i == 0 ? "" : "\t") + columns[i];
      text += "\n";
    }
    std::string label;
    for (const char* tried : {"0", "1", "0.5", "3", "entailment", "not_entailment", "neutral", "equivalent", "duplicate", "acceptable", "positive", "a", "b"})
      if (label.empty() && task.labels.value(tried)) label = tried;
    if (label.empty() && task.labels.wanted.starts_with("'")) label = task.labels.wanted.substr(1, task.labels.wanted.find('\'', 1) - 1);
    for (std::size_t i = 0; i < columns.size(); ++i) row += (i == 0 ? "" : "\t") + (columns[i] == task.label ? label : "a \"word\" \xc3\xa9");
    all.push_back(text + row + "\n" + row + "\r\n");
  }
  return all;
}

const bool tasks = register_target({"task_tsv", "train.tsv and its like of --data task", 5'900, read_task, task_seeds, true});

std::string special() {
  std::string text;
  for (const std::string_view piece : text::special_pieces) text += std::string(piece) + "\n";
  return text;
}

/// What a vocabulary is for, whatever is in it: ids of a text.
void read_vocabulary(std::string_view input) {
  const text::Vocabulary vocabulary = text::Vocabulary::read(as_file("vocab.txt", input));
  const text::WordPiece pieces(vocabulary);
  for (const std::string_view words : {std::string_view("un affable, \xc3\xa9t\xc3\xa9! \xe4\xb8\xad\xe6\x96\x87 ## a##b"), input.substr(0, 400)})
    for (const text::Vocabulary::Id id : pieces.encode(words))
      if (id < 0 || id >= vocabulary.size()) throw Finding("an id that there is not: " + std::to_string(id));
}

std::vector<std::string> vocabulary_seeds() {
  return {special(), special() + "un\n##aff\n##able\n\xc3\xa9\n,\na\n##b\n", "a\r\n##\r\n" + special()};
}

const bool vocabularies = register_target({"vocabulary", "vocab.txt of --vocabulary", 11'000, read_vocabulary, vocabulary_seeds});

/// Any bytes may be a text: words, their pieces, and a vocabulary learnt from them.
void read_text(std::string_view input) {
  static const text::WordPiece pieces(text::Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "e", "##e", "\xc3\xa9", "##"}, "fuzz"));
  if (text::encode_text(input, pieces).size() > 4 * input.size() + 4) throw Finding("more pieces than bytes");
  for (const text::Case letters : {text::Case::dropped, text::Case::kept}) {
    text::WordCounts counts;
    text::count_words(input, letters, counts);
    text::LearningOptions options;
    options.size = 400, options.least_count = 2;
    try {
      text::Vocabulary(text::learn_vocabulary(counts, options), "learnt");
    } catch (const UsageError&) {  // no words, or too many characters
    }
  }
}

std::vector<std::string> text_seeds() {
  return {"The quick brown fox. The quicker \xc3\xa9t\xc3\xa9, na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80!\n",
          "a\xcc\x81"
          "b\xe2\x80\x8b\xef\xbf\xbd\tA\xc4\xb0\n",
          "\xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 \xe1\x84\x92\xe1\x85\xa1"};
}

const bool texts = register_target({"text", "words and pieces of any text", 79'000, read_text, text_seeds});

}  // namespace
}  // namespace thinwire::fuzz
