// labels: unit
// Files of tasks: those of GLUE's shapes are read as their archive has them, and what is wrong is named with file, line and column.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/error.h"
#include "models/metrics/metric.h"
#include "models/tasks/text_task.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

using testing::message_of;

struct TaskFiles : ::testing::Test {
  testing::TemporaryFolder folder;
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / path).parent_path());
    folder.write(path, text);
  }
  /// Reads a task all of whose files have this content.
  TaskData read(const std::string& name, const std::string& content) {
    const TextTask task = text_task(name);
    write(task.folder + "/train.tsv", content);
    for (const std::string& file : task.judged) write(task.folder + "/" + file, content);
    return read_text_task(task, folder.path());
  }
  /// The only example of content with one row.
  Example example(const std::string& name, const std::string& content) {
    const TaskData data = read(name, content);
    EXPECT_EQ(data.train.examples.size(), 1u);
    return data.train.examples.at(0);
  }
  /// The error, from after the name of train.tsv.
  std::string refusal(const std::string& name, const std::string& content) {
    const std::string path = folder / (text_task(name).folder + "/train.tsv");
    const std::string said = message_of<CorruptData>([&] { read(name, content); });
    return said.starts_with(path) ? said.substr(path.size()) : "no file in: " + said;
  }
};

void expect(const Example& found, const std::string& first, const std::string& second, double label) {
  EXPECT_EQ(found.first, first);
  EXPECT_EQ(found.second, second);
  EXPECT_EQ(found.label, label);
}

}  // namespace

TEST_F(TaskFiles, OfGlueAreReadAsReleased) {
  expect(example("cola", "gj04\t0\t*\tThey drank the pub.\n"), "They drank the pub.", "", 0);
  expect(example("sst2", "sentence\tlabel\nhide new secretions \t1\n"), "hide new secretions ", "", 1);
  expect(example("mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tHe \"said so .\tHe said .\r\n"), "He \"said so .", "He said .", 1);
  expect(example("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tHow?\t0\n"), "Why?", "How?", 0);
  const std::string similar = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n0\tmain\tMSR\t2012\t1\tnone\tnone\tA plane.\tA jet.\t";
  expect(example("stsb", similar + "4.750\n"), "A plane.", "A jet.", 4.75);
  expect(example("stsb_classes", similar + "4.750\n"), "A plane.", "A jet.", 4);
  EXPECT_EQ(example("stsb_classes", similar + "5.000\n").label, 4) << "five classes";
  EXPECT_EQ(example("stsb_classes", similar + "0.999\n").label, 0);
  expect(example("qnli", "index\tquestion\tsentence\tlabel\n0\tWho?\tShe.\tnot_entailment\n"), "Who?", "She.", 1);
  expect(example("rte", "index\tsentence1\tsentence2\tlabel\n0\tA b.\tA.\tentailment\n"), "A b.", "A.", 0);
  expect(example("wnli", "index\tsentence1\tsentence2\tlabel\n0\tA b.\tA.\t1\n"), "A b.", "A.", 1);
}

TEST_F(TaskFiles, OfMnliAreJudgedOnBothKindsOfGenresWhoseFilesHaveOtherColumns) {
  write("MNLI/train.tsv", "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\tP\tH\tneutral\tneutral\n");
  for (const std::string kind : {"matched", "mismatched"})
    write("MNLI/dev_" + kind + ".tsv", "index\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n0\tP\t" + kind + "\tneutral\tneutral\tcontradiction\n");
  const TaskData data = read_text_task(text_task("mnli"), folder.path());
  EXPECT_EQ(data.train.examples.at(0).label, 2);
  ASSERT_EQ(data.judged.size(), 2u);
  EXPECT_EQ(data.judged[0].name, "dev_matched.tsv");
  EXPECT_EQ(data.judged[0].examples.at(0).second, "matched");
  EXPECT_EQ(data.judged[1].examples.at(0).second, "mismatched");
  EXPECT_EQ(data.judged[1].examples.at(0).label, 0);
}

TEST_F(TaskFiles, OfOurOwnTasksAreReadThroughTheSameFrame) {
  expect(example("acc", "label\tsentence\n1\ta satisfied customer\n"), "a satisfied customer", "", 1);
  expect(example("sim", "score\tsentence1\tsentence2\n1.3\ta\tb\n"), "a", "b", 1.3);
  expect(example("nli", "label\tpremise\thypothesis\n2\tp\th\n"), "p", "h", 2);
}

TEST_F(TaskFiles, QuotationMarksAndOddSeparatorsAreText) {
  const TaskData data = read("sst2", "sentence\tlabel\n\"it 's \"\"odd\t1\n\" , '\x0C so\xE2\x80\xA8\xC2\x85on\r \t0\n\t1");
  ASSERT_EQ(data.train.examples.size(), 3u);
  EXPECT_EQ(data.train.examples[0].first, "\"it 's \"\"odd");
  EXPECT_EQ(data.train.examples[1].first, "\" , '\x0C so\xE2\x80\xA8\xC2\x85on\r ");
  EXPECT_EQ(data.train.examples[2].first, "") << "an empty text is a text, and the last line needs no end";
}

TEST_F(TaskFiles, ABrokenRowOfQqpIsLeftOutAndCounted) {
  const TaskData data = read("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy\n?\tHow?\t0\n2\t4\t5\tA?\tB?\t1\n");
  EXPECT_EQ(data.train.broken_rows, 2);
  ASSERT_EQ(data.train.examples.size(), 1u);
  EXPECT_EQ(data.train.examples[0].first, "A?");
}

TEST_F(TaskFiles, ErrorsNameFileLineAndColumn) {
  const std::string header = "index\tsentence1\tsentence2\tlabel\n", row = "0\tA b.\tA.\tentailment\n";
  EXPECT_EQ(refusal("rte", "index\tsentence1\tlabel\n"), ":1:1: the column 'sentence2' is missing; there is index, sentence1, label");
  EXPECT_EQ(refusal("rte", header + row + "1\tA\tB\tneutral\n"), ":3:7: the label 'neutral' of the column 'label' is not 'entailment' or 'not_entailment'");
  EXPECT_EQ(refusal("rte", header + row + "1\tA\tB\n"), ":3:5: 3 fields where there are 4 columns: index, sentence1, sentence2, label");
  EXPECT_EQ(refusal("rte", header + "1\tA\tB\tC\tentailment\n"), ":2:9: 5 fields where there are 4 columns: index, sentence1, sentence2, label");
  EXPECT_EQ(refusal("rte", header + "1\tA\tcaf\xE9\tentailment\n"), ":2:8: this byte of the column 'sentence2' is no UTF-8");
  EXPECT_EQ(refusal("rte", header), ":2:1: the file ends without a row");
  EXPECT_EQ(refusal("cola", ""), ":1:1: the file ends without a row");
  EXPECT_EQ(refusal("cola", "a\t2\t*\tA.\n"), ":1:3: the label '2' of the column 'label' is not '0' or '1'");
  for (const std::string score : {"5.1", "-1", "nan", "", "3x"})
    EXPECT_EQ(refusal("sim", "score\tsentence1\tsentence2\n" + score + "\ta\tb\n"), ":2:1: the label '" + score + "' of the column 'score' is not a number from 0.0 to 5.0");
}

TEST_F(TaskFiles, AMissingFileOrTaskIsNamed) {
  EXPECT_NE(message_of<EnvironmentError>([&] { read_text_task(text_task("rte"), folder.path()); }).find("RTE/train.tsv"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([] { text_task("glue"); }).find("cola, dup, ent"), std::string::npos);
}

TEST(TextTasks, NameMetricsThatThereAreAndHaveWhatAReaderNeeds) {
  std::set<std::string> known;
  for (const Metric& metric : metrics()) known.insert(metric.name);
  EXPECT_GE(text_tasks().size(), 18u);
  for (const TextTask& task : text_tasks()) {
    EXPECT_FALSE(task.metrics.empty() || task.judged.empty() || task.folder.empty() || task.label.empty()) << task.name;
    EXPECT_TRUE(task.texts.size() == 1 || task.texts.size() == 2) << task.name;
    for (const std::string& metric : task.metrics) EXPECT_TRUE(known.contains(metric)) << task.name << ": " << metric;
  }
}

}  // namespace thinwire
