// labels: unit
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/clock.h"
#include "core/sha256.h"
#include "results/cell.h"
#include "results/collect.h"
#include "results/files/files.h"
#include "results/journal.h"
#include "results/provenance.h"
#include "results/record.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace {
int flushed = 0;
}
/// In place of the C library's: it counts.
extern "C" int fsync(int) { return ++flushed, 0; }

namespace thinwire::results {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

Parameters parameters_of(const std::string& method) {
  Parameters p;
  p.set("method", method);
  p.set("fraction", 0.1);
  p.set("batch", 8);
  return p;
}

CellRecord record_of(const std::string& method, const std::string& corpus = "") {
  CellRecord record;
  record.program = "bench_activation";
  record.ranks = 4;
  record.link = "netns:1gbit";
  record.parameters = parameters_of(method);
  record.cell_id = cell_id(record.program, record.ranks, record.link, record.parameters);
  CellRow row;
  row.cell_id = record.cell_id;
  row.method = method;
  row.corpus = corpus;
  row.total_us = 12.5;
  record.rows = {row, row};
  record.rows[1].traffic = "pp_forward";
  record.samples.push_back({record.cell_id, "tp_forward", 3, 1, 1, 2, 3, 6, 0});
  record.links.push_back({"netns:1gbit", 4, 4096, "one_way", 1.0, 0.97, 1});
  record.provenance =
      collect_provenance({.launch = "0001", .program = "bench_activation", .command = {"bench", "a b"}});
  return record;
}

std::string write(const TemporaryFolder& out, const CellRecord& record) {
  const std::string path = record_path(out.path(), record.cell_id);
  write_cell_record(path, record);
  return path;
}

TEST(Cell, EqualParametersHaveOneCanonicalText) {
  Parameters a, b;
  a.set("b", 8);
  a.set("a", 0.1);
  a.set("z", true);
  b.set("z", "true");
  b.set("a", "1e-1");
  b.set("b", 8.0);
  EXPECT_EQ(a.canonical_json(), R"({"a":0.1,"b":8,"z":true})");
  EXPECT_EQ(a.canonical_json(), b.canonical_json());
  EXPECT_EQ(cell_id("p", 2, "shm", a), cell_id("p", 2, "shm", b));
}

TEST(Cell, DifferentCellsHaveDifferentIdentities) {
  const Parameters p = parameters_of("T1");
  Parameters changed = p;
  changed.set("fraction", std::nextafter(0.1, 1));
  std::vector<std::string> ids = {cell_id("p", 2, "shm", p), cell_id("q", 2, "shm", p),
                                  cell_id("p", 4, "shm", p), cell_id("p", 2, "netns:1gbit", p),
                                  cell_id("p", 2, "shm", changed)};
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(ids[0].size(), 64u);
}

// The same cell as in tests/results/test_migrate.py: the converter computes ids by itself.
TEST(CellId, OfAMeasuredCellIsWhatTheConverterMakesOfIt) {
  Parameters p;
  for (const auto& [name, value] : std::map<std::string, std::string>{{"batch", "8"}, {"capture", "capture.h5"}, {"codec", "quantize:bits=2"}, {"form", "fair"},
                                                                      {"hidden", "512"}, {"method", "Q1"}, {"pp", "1"}, {"repetitions", "3"}, {"seed", "1"},
                                                                      {"seq", "128"}, {"serial", "1"}, {"tp", "4"}, {"comm-dtype", "f16"}})
    p.set(name, value);
  EXPECT_EQ(cell_id("bench_activation", 4, "netns:100mbit", p), "661674946ee92fa8c1045a1397ccc428359f86a8577d0e2ddd17eba26dfba13e");
}

TEST(Cell, NumbersOfEveryKindReadBackFromTheirText) {
  for (const double value : {0.0, -0.0, 1.0, -1.0, 0.1, 1.0 / 3, 1e-300, 1e300, 9007199254740992.0, 1e18}) {
    Parameters p;
    p.set("x", value);
    const Parameters back = Parameters::from_json(p.canonical_json(), "test");
    EXPECT_EQ(back.number("x"), value);
    EXPECT_EQ(back.canonical_json(), p.canonical_json());
  }
  Parameters p;
  p.set("x", std::nan(""));
  EXPECT_THROW((void)p.canonical_json(), UsageError);
  p.set("x", "\xff\xfe");
  EXPECT_THROW((void)p.canonical_json(), UsageError);
}

TEST(Cell, AnyTextSurvivesAndNestedJsonIsRefused) {
  Parameters p;
  p.set("x", "quote \" backslash \\ line\nend \x01 größer $(rm) 'q'");
  EXPECT_EQ(Parameters::from_json(p.canonical_json(), "test").text("x"), p.text("x"));
  for (const char* bad : {"[1]", "{\"a\":[1]}", "{\"a\":null}", "{", "", "3"})
    EXPECT_THROW(Parameters::from_json(bad, "file"), CorruptData) << bad;
}

TEST(Cell, TypedAccessNamesTheParameter) {
  const Parameters p = parameters_of("T1");
  EXPECT_EQ(p.integer("batch"), 8);
  EXPECT_EQ(p.number("batch"), 8.0);
  EXPECT_NE(message_of<UsageError>([&] { (void)p.integer("fraction"); }).find("fraction"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { (void)p.number("method"); }).find("method"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { (void)p.text("none"); }).find("none"), std::string::npos);
}

TEST(Row, TheColumnsHoldEveryMember) {
  const auto bytes = [](const auto& columns) {
    std::size_t sum = 0;
    for (const auto& column : columns) sum += column.member.index() == 0 ? sizeof(std::string) : 8;
    return sum;
  };
  EXPECT_EQ(bytes(cell_columns()), sizeof(CellRow));
  EXPECT_EQ(bytes(sample_columns()), sizeof(SampleRow));
  EXPECT_EQ(bytes(provenance_columns()), sizeof(Provenance));
  EXPECT_EQ(bytes(link_columns()), sizeof(LinkRow));
  EXPECT_EQ(bytes(spectrum_columns()), sizeof(SpectrumRow));
  EXPECT_EQ(bytes(training_columns()), sizeof(TrainingRow));
  EXPECT_EQ(bytes(training_curve_columns()), sizeof(TrainingCurveRow));
  EXPECT_EQ(bytes(training_metric_columns()), sizeof(TrainingMetricRow));
  EXPECT_EQ(bytes(training_time_columns()), sizeof(TrainingTimeRow));
  EXPECT_EQ(bytes(training_traffic_columns()), sizeof(TrainingTrafficRow));
  EXPECT_EQ(bytes(training_step_columns()), sizeof(TrainingStepRow));
  EXPECT_EQ(bytes(training_memory_columns()), sizeof(TrainingMemoryRow));
  EXPECT_EQ(bytes(training_prediction_columns()), sizeof(TrainingPredictionRow));
  EXPECT_EQ(bytes(timeline_columns()), sizeof(TimelineRow));
}

// The lines of the first table below a heading of docs/results-schema.md.
std::vector<std::string> documented(const std::string& heading) {
  std::istringstream text(TemporaryFolder::read(testing::source_folder() + "/docs/results-schema.md"));
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("## "))
      inside = line == heading;
    else if (inside && line.starts_with("| ") && line != "| column | type | meaning |")
      lines.push_back(line);
  }
  return lines;
}

template <typename R>
std::vector<std::string> defined(std::span<const ColumnOf<R>> columns) {
  std::vector<std::string> lines;
  for (const auto& column : columns)
    lines.push_back(std::string("| ") + column.name + " | " + type_name(column) + " | " + column.help + " |");
  return lines;
}

TEST(Row, TheDocumentNamesEveryColumnAsTheCodeDoes) {
  EXPECT_EQ(documented("## Table `/cells`"), defined(cell_columns()));
  EXPECT_EQ(documented("## Table `/samples`"), defined(sample_columns()));
  EXPECT_EQ(documented("## Table `/provenance`"), defined(provenance_columns()));
  EXPECT_EQ(documented("## Table `/links`"), defined(link_columns()));
  EXPECT_EQ(documented("## Table `/spectra`"), defined(spectrum_columns()));
  EXPECT_EQ(documented("## Table `/magnitudes`"), defined(magnitude_columns()));
  EXPECT_EQ(documented("## Table `/training`"), defined(training_columns()));
  EXPECT_EQ(documented("## Table `/training_curve`"), defined(training_curve_columns()));
  EXPECT_EQ(documented("## Table `/training_metrics`"), defined(training_metric_columns()));
  EXPECT_EQ(documented("## Table `/training_time`"), defined(training_time_columns()));
  EXPECT_EQ(documented("## Table `/training_traffic`"), defined(training_traffic_columns()));
  EXPECT_EQ(documented("## Table `/training_steps`"), defined(training_step_columns()));
  EXPECT_EQ(documented("## Table `/training_memory`"), defined(training_memory_columns()));
  EXPECT_EQ(documented("## Table `/training_prediction`"), defined(training_prediction_columns()));
  EXPECT_EQ(documented("## Table `/timeline`"), defined(timeline_columns()));
}

TEST(Row, JsonKeepsEveryColumnAndRefusesUnknownOnes) {
  CellRow row;
  row.method = "T3";
  row.total_us = 1.0 / 3;
  row.link_bytes = std::int64_t{1} << 60;
  row.reason = "odd \"text\"\n";
  const CellRow back = cell_row_from_json(to_json(row), "test");
  EXPECT_EQ(to_json(back), to_json(row));
  EXPECT_TRUE(std::isnan(back.speedup));
  EXPECT_EQ(back.total_us, row.total_us);
  EXPECT_NE(message_of<CorruptData>([] { cell_row_from_json(R"({"total_use": 1})", "f"); }).find("total_us"),
            std::string::npos);
  EXPECT_THROW(cell_row_from_json(R"({"ranks": "four"})", "f"), CorruptData);
}

TEST(Row, AColumnThatCameLaterKeepsItsDefaultInOlderFiles) {
  CellRow row;
  row.device = "a GPU", row.bound_fraction = 0.9, row.method = "T3";
  Table table = to_table(std::span<const CellRow>(&row, 1), cell_columns());
  std::erase_if(table.columns, [](const TableColumn& column) { return column.name == "device" || column.name == "bound_fraction"; });
  const std::vector<CellRow> back = from_table(table, cell_columns(), "older");
  EXPECT_EQ(back[0].method, "T3");
  EXPECT_EQ(back[0].device, "");
  EXPECT_TRUE(std::isnan(back[0].bound_fraction));
  std::erase_if(table.columns, [](const TableColumn& column) { return column.name == "ranks"; });
  EXPECT_NE(message_of<CorruptData>([&] { from_table(table, cell_columns(), "older"); }).find("`ranks`"), std::string::npos);
}

TEST(Row, WorstStatusIsTheMostSevere) {
  std::vector<CellRow> rows(3);
  EXPECT_EQ(worst_status(rows), Status::ok);
  rows[1].status = "MISTRUSTED";
  EXPECT_EQ(worst_status(rows), Status::mistrusted);
  rows[2].status = "WRONG";
  EXPECT_EQ(worst_status(rows), Status::wrong);
  rows[0].status = "FAILED";
  EXPECT_EQ(worst_status(rows), Status::failed);
  EXPECT_THROW(parse_status("ok"), CorruptData);
}

TEST(Journal, LinesOfAKilledWriterAreReadUpToTheTornOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "journal/a.jsonl";
  const Stopwatch watch;
  {
    Journal journal(path);
    journal.cell_started("c1");
    journal.cell_failed("c1", "odd \"reason\"\nof two lines");
  }
  const std::string whole = TemporaryFolder::read(path);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 2);
  folder.write("journal/a.jsonl", whole + R"({"event":"cell_fin)");
  JournalReader reader(path);
  auto entries = reader.poll();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].event, "cell_failed");
  EXPECT_EQ(entries[1].reason, "odd \"reason\"\nof two lines");
  EXPECT_GT(entries[1].time, 1e9);
  EXPECT_GE(entries[1].elapsed, entries[0].elapsed);  // monotonic, since the journal was opened
  EXPECT_LE(entries[1].elapsed, watch.seconds());
  Journal(path).cell_started("c2");  // a successor ends the torn line first
  entries = reader.poll();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].cell_id, "c2");
  EXPECT_EQ(reader.damaged_lines(), 1);
  EXPECT_TRUE(reader.poll().empty());
}

TEST(Journal, NoFileHasNoLinesAndAFullDeviceIsAnError) {
  EXPECT_TRUE(JournalReader("/nonexistent/a.jsonl").poll().empty());
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "a.jsonl");
  Journal journal(folder / "a.jsonl");
  EXPECT_NE(message_of<RuntimeFailure>([&] { journal.cell_started("c"); }).find("a.jsonl"),
            std::string::npos);
}

// `ulimit -f`, which many clusters set: an error of that write (core/process/main_guard.h), not the end of the program by SIGXFSZ.
TEST(Record, AFileThatMayNotGrowIsAFullDiskAndLeavesWhatWasThere) {
  const TemporaryFolder out;
  const CellRecord record = record_of("T3");
  const std::string path = write(out, record), before = TemporaryFolder::read(path);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string of_record = message_of<RuntimeFailure>([&] { write(out, record); });
  const std::string of_h5 = message_of<RuntimeFailure>([&] {
    write_h5_atomically(out / "x.h5", [](h5::File& file) { file.write_vector<double>("x", std::vector<double>(10000, 1.5)); });
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NE(of_record.find("disk is full"), std::string::npos) << of_record;
  EXPECT_NE(of_h5.find("disk is full"), std::string::npos) << of_h5;
  EXPECT_EQ(TemporaryFolder::read(path), before);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out.path())) EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST(Record, WhatIsWrittenIsRead) {
  const TemporaryFolder out;
  const CellRecord record = record_of("T3");
  const std::string path = write(out, record);
  const CellRecord back = read_cell_record(path);
  EXPECT_EQ(back.cell_id, record.cell_id);
  EXPECT_EQ(back.parameters.canonical_json(), record.parameters.canonical_json());
  EXPECT_EQ(back.ranks, 4);
  EXPECT_EQ(back.link, "netns:1gbit");
  ASSERT_EQ(back.rows.size(), 2u);
  EXPECT_EQ(to_json(back.rows[1]), to_json(record.rows[1]));
  ASSERT_EQ(back.samples.size(), 1u);
  EXPECT_EQ(back.samples[0].rank, 3);
  ASSERT_EQ(back.links.size(), 1u);
  EXPECT_EQ(back.links[0].measured_gbps, 0.97);
  EXPECT_EQ(back.provenance.command, "bench 'a b'");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Record, ItsSealNamesTheCodeThatWroteItSoThatReuseCanBeJudgedInOneRead) {
  const TemporaryFolder out;
  CellRecord record = record_of("T3");
  EXPECT_EQ(record.provenance.binary_hash, hash_of_binary("/proc/self/exe"));
  EXPECT_EQ(check_record(write(out, record)).code, record.provenance.binary_hash.substr(0, 16));
  // A reason of any length and content cannot pass for another field, nor push one out.
  record.rows[0].status = record.rows[1].status = "FAILED";
  record.rows[0].reason = record.rows[1].reason = " code=0000000000000000 status=OK " + std::string(900, 'x');
  const RecordCheck check = check_record(write(out, record));
  EXPECT_EQ(check.state, RecordState::finished);
  EXPECT_EQ(check.status, Status::failed);
  EXPECT_EQ(check.code, code_of(record.provenance.binary_hash));
  EXPECT_EQ(hash_of_binary(out / "none"), "");
}

TEST(Record, ItsSealNamesTheTextBehindIt) {
  const TemporaryFolder out;
  CellRecord record = record_of("T3");
  record.rows[0].status = "FAILED";
  record.rows[0].reason = "no text=ffffffffffffffff of any kind";
  EXPECT_EQ(check_record(write(out, record)).text, "");
  record.rows[1].corpus = std::string(48, 'a') + std::string(16, 'b');
  const RecordCheck check = check_record(write(out, record));
  EXPECT_EQ(check.text, std::string(16, 'a'));
  EXPECT_EQ(check.reason, record.rows[0].reason);
}

TEST(Files, AreFlushedBeforeAndAfterTheyAppearUnlessTestsAskOtherwise) {
  const TemporaryFolder out;
  const char* before = std::getenv("THINWIRE_FSYNC");
  const std::string kept = before == nullptr ? "" : before;
  const auto flushes = [&] {
    flushed = 0;
    write_file_atomically(out / "file", "content");
    EXPECT_EQ(read_file(out / "file"), "content");
    return flushed;
  };
  setenv("THINWIRE_FSYNC", "0", 1);
  EXPECT_EQ(flushes(), 0);
  unsetenv("THINWIRE_FSYNC");
  EXPECT_EQ(flushes(), 2);
  if (!kept.empty()) setenv("THINWIRE_FSYNC", kept.c_str(), 1);
}

TEST(Record, AProgramThatIsReplacedIsHashedAgain) {
  const TemporaryFolder out;
  write_file_atomically(out / "program", "one");
  const std::string before = hash_of_binary(out / "program");
  EXPECT_EQ(before, sha256_hex("one"));
  EXPECT_EQ(hash_of_binary(out / "program"), before);
  write_file_atomically(out / "program", "two");
  EXPECT_EQ(hash_of_binary(out / "program"), sha256_hex("two"));
}

TEST(Collect, CalibrationsThatCellsShareCountOnceEvenWhenTheyMeasuredNothing) {
  const TemporaryFolder out;
  for (const char* method : {"A1", "A2", "A3"}) {
    CellRecord record = record_of(method);
    record.links.push_back({"netns:1gbit", 4, 65536, "one_way", 1.0, not_measured, 0});
    write(out, record);
  }
  const h5::File file = h5::File::open_read(collect(out.path()).path);
  EXPECT_EQ(file.read_table("links").rows(), 2u);
}

TrainingTables training_of(const std::string& id) {
  TrainingTables tables;
  tables.curve = {{id, "all", 0, 5.5, not_measured, 1000, 1.5, 1e-3}, {id, "all", 1, 5.25, 5.375, 2000, 1.25, 2e-3}};
  tables.metrics = {{id, "all", 1, "accuracy", 0.75}};
  tables.time = {{id, "all", "netns:1gbit", "timed", 2.0, 123.5, 2.5, 20, 0.5, 60, 1, 40, 2, 20.5}};
  tables.traffic = {{id, "all", "tp_forward", "topk:fraction=0.1", 32, 4096, 512, 1024, 1.5, 2.5, 3.5, 0.25}};
  tables.steps = {{id, "all", "tp_forward", "topk:fraction=0.1", 3, 1024, 1.5, 2.5, 3.5, 0.25}};
  tables.memory = {{id, "all", 3, 1, 1 << 20}};
  tables.prediction = {{id, "all", "netns:1gbit", "step", 12.5}};
  tables.timeline = {{id, "all", "netns:1gbit", 7, "compute", "forward", 3, 0.5, 10.25}, {id, "all", "netns:1gbit", 0, "wait", "step", -1, 0, 1}};
  tables.attempts = {{id, 1, 0.3, 3, 8.5, 4, 0.25, 0.5, 0.125, 10, 0, "0001", "2026-11-22T00:00:00Z"}, {id, 2, not_measured, not_measured, 8, 4, not_measured, 0, 0, 0.25, 1, "0002", ""}};
  return tables;
}

TEST(Record, TheTablesOfATrainingRunAreReadBackAndCollected) {
  const TemporaryFolder out;
  CellRecord record = record_of("T3");
  record.training = training_of(record.cell_id);
  const TrainingTables back = read_cell_record(write(out, record)).training;
  ASSERT_EQ(back.curve.size(), 2u);
  EXPECT_TRUE(std::isnan(back.curve[0].validation_loss));
  EXPECT_EQ(back.curve[1].validation_loss, 5.375);
  EXPECT_EQ(back.curve[1].link_bytes, 2000);
  ASSERT_EQ(back.metrics.size(), 1u);
  EXPECT_EQ(back.metrics[0].metric, "accuracy");
  EXPECT_EQ(back.metrics[0].value, 0.75);
  ASSERT_EQ(back.time.size(), 1u);
  EXPECT_EQ(back.time[0].wait_ms, 20.5);
  ASSERT_EQ(back.traffic.size(), 1u);
  EXPECT_EQ(back.traffic[0].codec, "topk:fraction=0.1");
  ASSERT_EQ(back.steps.size(), 1u);
  EXPECT_EQ(back.steps[0].step, 3);
  EXPECT_EQ(back.steps[0].relative_error, 0.25);
  ASSERT_EQ(back.memory.size(), 1u);
  EXPECT_EQ(back.memory[0].peak_bytes, 1 << 20);
  ASSERT_EQ(back.attempts.size(), 2u);
  EXPECT_EQ(back.attempts[0].disturbance_cores, 0.3);
  EXPECT_EQ(back.attempts[0].others_cpu_s, 3);
  EXPECT_EQ(back.attempts[0].used, 0);
  EXPECT_EQ(back.attempts[0].started, "2026-11-22T00:00:00Z");
  EXPECT_TRUE(std::isnan(back.attempts[1].disturbance_cores));
  EXPECT_EQ(back.attempts[1].launch, "0002");
  ASSERT_EQ(back.prediction.size(), 1u);
  EXPECT_EQ(back.prediction[0].predicted_ms, 12.5);
  ASSERT_EQ(back.timeline.size(), 2u);
  EXPECT_EQ(back.timeline[0].rank, 7);
  EXPECT_EQ(back.timeline[1].micro, -1);

  write(out, record_of("T1"));  // a cell that trained nothing
  const h5::File file = h5::File::open_read(collect(out.path()).path);
  EXPECT_EQ(file.read_table("training_curve").rows(), 2u);
  EXPECT_EQ(file.read_table("training_time").rows(), 1u);
  EXPECT_EQ(file.read_table("training_traffic").rows(), 1u);
  EXPECT_EQ(file.read_table("training_steps").rows(), 1u);
  EXPECT_EQ(file.read_table("training_memory").rows(), 1u);
  EXPECT_EQ(file.read_table("training_prediction").rows(), 1u);
  EXPECT_EQ(file.read_table("timeline").rows(), 2u);
  EXPECT_EQ(std::get<0>(file.read_table("timeline").find("category")->values)[0], "compute");

  EXPECT_EQ(h5::File::open_read(collect(out.path(), {.steps_of_at_most = 1}).path).read_table("training_steps").rows(), 1u) << "a run of one step, whatever its number";
  const h5::File without = h5::File::open_read(collect(out.path(), {.steps_of_at_most = 0}).path);
  EXPECT_EQ(without.read_table("training_steps").rows(), 0u);
  EXPECT_EQ(without.read_table("training_traffic").rows(), 1u);

  EXPECT_EQ(h5::File::open_read(collect(out.path(), {.losses_of_at_most = 2}).path).read_table("training_curve").rows(), 2u) << "a run of two steps";
  const Table validated = h5::File::open_read(collect(out.path(), {.losses_of_at_most = 1}).path).read_table("training_curve");
  ASSERT_EQ(validated.rows(), 1u);
  EXPECT_FALSE(std::isnan(std::get<std::vector<double>>(validated.find("validation_loss")->values)[0]));
  for (TrainingCurveRow& row : record.training.curve) row.validation_loss = std::numeric_limits<double>::quiet_NaN();
  write(out, record);
  EXPECT_EQ(h5::File::open_read(collect(out.path(), {.losses_of_at_most = 0}).path).read_table("training_curve").rows(), 2u) << "of a run without validations all that is known of it";

  record.training.timeline[0].cell_id = "another";
  EXPECT_THROW(write_cell_record(out / "cells/x.h5", record), UsageError);
}

TEST(Record, ItsSealTellsStatusAndReasonWithoutHdf5) {
  const TemporaryFolder out;
  CellRecord record = record_of("T3");
  record.rows[0].status = "FAILED";
  record.rows[0].reason = "rank 3: NaN in größer=1 status=OK\nsecond line " + std::string(600, 'x');
  const RecordCheck check = check_record(write(out, record));
  EXPECT_EQ(check.state, RecordState::finished);
  EXPECT_EQ(check.status, Status::failed);
  EXPECT_EQ(check.cell_id, record.cell_id);
  EXPECT_TRUE(check.reason.starts_with("rank 3: NaN in größer=1 status=OK second line"));
  EXPECT_EQ(check_record(out / "cells/none.h5").state, RecordState::missing);
}

TEST(Record, AnyTruncationAndAnyFlippedByteIsNoticed) {
  const TemporaryFolder out;
  const std::string path = write(out, record_of("T3"));
  const std::string whole = TemporaryFolder::read(path);
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 97 + 1) {
    out.write("cut.h5", whole.substr(0, size));
    EXPECT_FALSE(is_finished(out / "cut.h5")) << size;
    EXPECT_THROW(read_cell_record(out / "cut.h5"), CorruptData);
  }
  for (std::size_t at = 512; at < whole.size(); at += 211) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    out.write("flipped.h5", flipped);
    EXPECT_FALSE(is_finished(out / "flipped.h5")) << at;
  }
  out.write("longer.h5", whole + "x");
  EXPECT_FALSE(is_finished(out / "longer.h5"));
}

TEST(Record, AnotherSchemaVersionIsToldApartFromDamage) {
  const TemporaryFolder out;
  std::string bytes = TemporaryFolder::read(write(out, record_of("T3")));
  bytes.replace(bytes.find("schema=2"), 8, "schema=7");
  const std::string path = out.write("other.h5", bytes);
  EXPECT_EQ(check_record(path).state, RecordState::other_schema);
  const std::string message = message_of<CorruptData>([&] { read_cell_record(path); });
  EXPECT_NE(message.find("schema version 7"), std::string::npos) << message;
  EXPECT_NE(message.find(path), std::string::npos) << message;
}

TEST(Record, AFailedWriteLeavesTheOldRecordAndNoRemains) {
  const TemporaryFolder out;
  CellRecord record = record_of("T3");
  const std::string path = write(out, record);
  const std::string before = TemporaryFolder::read(path);
  record.rows[0].status = "fine";
  EXPECT_THROW(write_cell_record(path, record), CorruptData);
  record = record_of("T3");
  record.rows.clear();
  EXPECT_THROW(write_cell_record(path, record), UsageError);
  EXPECT_THROW(write_cell_record("/proc/no/such/cells/a.h5", record_of("T3")), EnvironmentError);
  EXPECT_EQ(TemporaryFolder::read(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out / "cells"), {}), 1);
}

TEST(Provenance, NamesCompilerLibrariesMachineAndBinary) {
  const Provenance p = collect_provenance({.program = "x", .command = {"x", "it's", "$(no)"}});
  EXPECT_EQ(p.command, "x 'it'\\''s' '$(no)'");
  EXPECT_FALSE(p.compiler.empty());
  EXPECT_EQ(p.binary_hash.size(), 64u);
  EXPECT_EQ(p.hostname_hash.size(), 16u);
  EXPECT_EQ(p.hdf5, h5::library_version());
  EXPECT_NE(p.cpu.find("usable cores"), std::string::npos);
  EXPECT_EQ(p.schema_version, schema_version);
  EXPECT_EQ(p.started.size(), std::string("2024-01-31T12:00:00.123Z").size());
}

TEST(Collect, MergesFinishedCellsAndLeavesDamagedOnesOut) {
  const TemporaryFolder out;
  for (const char* method : {"T1", "T2", "T3"}) write(out, record_of(method));
  const std::string broken = record_path(out.path(), record_of("T2").cell_id);
  out.write("cells/" + std::filesystem::path(broken).filename().string(), "broken");
  const CollectReport report = collect(out.path());
  EXPECT_EQ(report.rows.size(), 4u);
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_NE(report.damaged[0].find(broken), std::string::npos);
  const h5::File file = h5::File::open_read(report.path);
  require_schema(file);
  EXPECT_EQ(file.read_table("cells").rows(), 4u);
  EXPECT_EQ(file.read_table("samples").rows(), 2u);
  EXPECT_EQ(file.read_table("links").rows(), 1u) << "two cells share one calibration";
  EXPECT_EQ(file.read_table("provenance").rows(), 1u);
  EXPECT_EQ(std::get<0>(file.read_table("cells").find("launch")->values)[0], "0001");
}

TEST(Collect, TakesRowsOfOtherProgramsWithTheirDeviceAndNamesLinesThatAreNone) {
  const TemporaryFolder out;
  write(out, record_of("T1"));
  CellRow row;
  row.program = "pytorch 9", row.method = "torch.topk", row.device = "a GPU", row.encode_us = 5;
  std::filesystem::create_directory(out / "rows");
  out.write("rows/gpu_codecs.jsonl", to_json(row) + "\n{\"method\": \"x\", \"no_column\": 1}\n" + R"({"status": "fine"})" + "\n");
  out.write("rows/notes.txt", "not rows");
  const CollectReport report = collect(out.path());
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows.back().method, "torch.topk");
  EXPECT_EQ(report.rows.back().launch, "rows/gpu_codecs");
  ASSERT_EQ(report.damaged.size(), 2u);
  EXPECT_NE(report.damaged[0].find("gpu_codecs.jsonl, line 2: no column is called `no_column`"), std::string::npos) << report.damaged[0];
  const Table provenance = h5::File::open_read(report.path).read_table("provenance");
  EXPECT_EQ(provenance.rows(), 2u);
  EXPECT_EQ(collect(out.path(), {.cell_ids = {record_of("T1").cell_id}}).rows.size(), 2u) << "a study's cells only";
}

TEST(Collect, SaysWordsForFoldersOfTheMachineWhereTheirNameEnds) {
  const TemporaryFolder out;
  CellRecord record = record_of("T1");
  record.provenance.command = "/data/run/bin/train_gpt --cells /data/run/launches/0001.json --state=/data/run --not /data/run2 --nor /more/data/run/x";
  record.rows[0].reason = "/data/run/logs/0001.txt: no such file (\"/data/run\")";
  write(out, record);
  const CollectOptions options{.words_for_folders = {{"/data/run/bin", "BIN"}, {"/data/run", "OUT"}, {"/", "ROOT"}}};
  const CollectReport report = collect(out.path(), options);
  EXPECT_EQ(report.rows[0].reason, "OUT/logs/0001.txt: no such file (\"OUT\")");
  EXPECT_EQ(records_in(report.path).at(record.cell_id).provenance.command, "BIN/train_gpt --cells OUT/launches/0001.json --state=OUT --not /data/run2 --nor /more/data/run/x");
  EXPECT_EQ(read_cell_record(record_path(out.path(), record.cell_id)).provenance.command, record.provenance.command) << "the record itself stays as it was measured";
  EXPECT_EQ(records_in(collect(out.path()).path).at(record.cell_id).provenance.command, record.provenance.command) << "only where it is asked for";
}

// Launches are counted in each folder: cells that came from another keep their own provenance.
TEST(Collect, TellsApartLaunchesOfOneNumber) {
  const TemporaryFolder out;
  CellRecord here = record_of("T1"), too = record_of("T2"), elsewhere = record_of("T3");
  here.provenance.config_hash = too.provenance.config_hash = "aa", elsewhere.provenance.config_hash = "bb";
  elsewhere.provenance.commit = "another commit";
  here.provenance.finished = "2026-01-01", too.provenance.finished = "2026-01-02", elsewhere.provenance.finished = "2026-01-03";
  elsewhere.training.attempts.resize(2);
  for (AttemptRow& attempt : elsewhere.training.attempts) attempt.cell_id = elsewhere.cell_id;
  elsewhere.training.attempts[0].launch = "0001", elsewhere.training.attempts[1].launch = "0007";
  for (const CellRecord& record : {here, too, elsewhere}) write(out, record);
  const std::map<std::string, CellRecord> records = records_in(collect(out.path()).path);
  const Provenance &mine = records.at(here.cell_id).provenance, &other = records.at(elsewhere.cell_id).provenance;
  EXPECT_EQ(mine.config_hash, "aa");
  EXPECT_EQ(mine.finished, "2026-01-02") << "of the last of its cells";
  EXPECT_EQ(records.at(too.cell_id).provenance.launch, mine.launch);
  EXPECT_EQ(other.config_hash, "bb");
  EXPECT_EQ(other.commit, "another commit");
  EXPECT_EQ(other.finished, "2026-01-03");
  EXPECT_EQ(std::set<std::string>({mine.launch, other.launch}), std::set<std::string>({"0001", "0001~2"}));
  const std::vector<AttemptRow>& attempts = records.at(elsewhere.cell_id).training.attempts;
  EXPECT_EQ(attempts.at(0).launch, other.launch);
  EXPECT_EQ(attempts.at(1).launch, "0007") << "an earlier launch, whose cells are not here";
}

TEST(Collect, OfAStudyTellsWhatIsMissing) {
  const TemporaryFolder out;
  write(out, record_of("T1"));
  const CollectReport report = collect(
      out.path(), {.cell_ids = {record_of("T2").cell_id, record_of("T1").cell_id, record_of("T1").cell_id}});
  EXPECT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.missing, std::vector<std::string>{record_of("T2").cell_id});
}

TEST(Collect, RefusesTwoCorporaUnlessTold) {
  const TemporaryFolder out;
  write(out, record_of("T1", "aaaa"));
  write(out, record_of("T2", ""));
  EXPECT_NO_THROW(collect(out.path()));
  write(out, record_of("T3", "bbbb"));
  const std::string message = message_of<UsageError>([&] { collect(out.path()); });
  EXPECT_NE(message.find("aaaa"), std::string::npos) << message;
  EXPECT_NE(message.find("bbbb"), std::string::npos) << message;
  EXPECT_EQ(collect(out.path(), {.allow_mixed_corpus = true}).rows.size(), 6u);
}

TEST(Collect, TakesItsTablesFromTheCapture) {
  const TemporaryFolder out;
  write(out, record_of("T1"));
  const std::vector<SpectrumRow> spectra = {{"layer0", 3, "activation", 1, 0, 1.0},
                                            {"layer0", 3, "activation", 1, 1, 0.5}};
  const std::vector<MagnitudeRow> magnitudes = {{"mlp.expand.weight", 3, -20, 7}, {"mlp.expand.weight", 3, exponent_of_zero, 2}};
  const std::vector<TrainingRow> training = {{0, 5.5, 1e4, 3e-4, 1.0}};
  write_h5_atomically(out / "capture.h5", [&](h5::File& file) {
    file.write_table("spectra", to_table(std::span<const SpectrumRow>(spectra), spectrum_columns()));
    file.write_table("magnitudes", to_table(std::span<const MagnitudeRow>(magnitudes), magnitude_columns()));
    file.write_table("training", to_table(std::span<const TrainingRow>(training), training_columns()));
  });
  collect(out.path());
  const h5::File file = h5::File::open_read(out / "collected.h5");
  EXPECT_EQ(std::get<2>(file.read_table("spectra").find("singular_value")->values),
            (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(std::get<1>(file.read_table("magnitudes").find("count")->values), (std::vector<std::int64_t>{7, 2}));
  EXPECT_EQ(std::get<2>(file.read_table("training").find("loss")->values)[0], 5.5);
}

TEST(Collect, TakesTheTablesOfARaceAsTheyAre) {
  const TemporaryFolder out;
  write(out, record_of("T1"));
  std::filesystem::create_directory(out / "race");
  const Table race{{{"entrant", std::vector<std::string>{"dense", "8 bits"}}, {"sooner", std::vector<double>{1, 2.5}}}};
  const Table other{{{"x", std::vector<std::int64_t>{1}}}};
  write_h5_atomically(out / "race/race.h5", [&](h5::File& file) { file.write_table("race", race), file.write_table("race_curve", other), file.write_table("cells", other); });
  EXPECT_TRUE(collect(out.path()).damaged.empty());
  {
    const h5::File file = h5::File::open_read(out / "collected.h5");
    EXPECT_EQ(std::get<0>(file.read_table("race").find("entrant")->values), (std::vector<std::string>{"dense", "8 bits"}));
    EXPECT_EQ(std::get<2>(file.read_table("race").find("sooner")->values), (std::vector<double>{1, 2.5}));
    EXPECT_EQ(std::get<1>(file.read_table("race_curve").find("x")->values), (std::vector<std::int64_t>{1}));
    EXPECT_EQ(file.read_table("cells").rows(), 2u) << "no other table of that file is taken";
  }
  collect(out.path(), {.cell_ids = {record_of("T1").cell_id}});
  EXPECT_FALSE(h5::File::open_read(out / "collected.h5").has("race")) << "a study's cells only";
  out.write("race/race.h5", "no HDF5");
  const CollectReport report = collect(out.path());
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_NE(report.damaged[0].find("race.h5"), std::string::npos) << report.damaged[0];
  EXPECT_EQ(report.rows.size(), 2u);
}

TEST(AtomicFiles, AnExceptionInTheMiddleLeavesTheOldFile) {
  const TemporaryFolder out;
  const std::string path = out / "collected.h5";
  write_h5_atomically(path, [](h5::File& file) { file.set_attribute("", "n", 1); });
  EXPECT_THROW(write_h5_atomically(path, [](h5::File&) { throw RuntimeFailure("stop"); }), RuntimeFailure);
  EXPECT_EQ(h5::File::open_read(path).int_attribute("", "n"), 1);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

}  // namespace
}  // namespace thinwire::results
