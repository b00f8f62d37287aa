// labels: unit
// timeout: 300
#include "experiments/archive/archive.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "core/error.h"
#include "core/sha256.h"
#include "experiments/archive/archive_seal.h"
#include "experiments/study/expand.h"
#include "experiments/study/saved_study.h"
#include "experiments/archive/zstd.h"
#include "results/collect.h"
#include "results/record.h"
#include "results/files/tar.h"
#include "support/temporary_folder.h"

namespace thinwire::sweep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

constexpr const char* study_text = R"([study]
name = "small"
program = "bench_codec"
ranks = 1
link = "none"
[axes]
codec = ["none", "cast", "topk:fraction=0.1"]
seed = [1, 2]
)";

bool zstd_is_here() { return std::system("zstd --version > /dev/null 2>&1") == 0; }

void write_record(const std::string& out, const PlannedCell& cell) {
  results::CellRecord record;
  record.cell_id = cell.cell_id;
  record.program = cell.program;
  record.ranks = cell.ranks;
  record.link = cell.link;
  record.parameters = cell.parameters;
  results::CellRow row;
  row.cell_id = cell.cell_id;
  row.program = cell.program;
  record.rows = {row};
  record.provenance.launch = "0001";
  record.provenance.started = record.provenance.finished = "2026-01-01T00:00:00.000Z";
  results::write_cell_record(results::record_path(out, cell.cell_id), record);
}

class Archive : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!zstd_is_here()) GTEST_SKIP() << "the program zstd is not installed";
    study = read_study(folder.write("small.toml", study_text));
    cells = expand(study);
    fs::create_directories(out + "/cells");
    save_study(study, out);
    for (const PlannedCell& cell : cells) write_record(out, cell);
    for (const char* file : {"logs/0001.log", "launches/0001.json", "journal/0001.jsonl", "slurm/job.sh", "figures/links.csv",
                             "machine.toml", "capture.h5", "cells/torn.h5.tmp", ".lock", "leases/run.json",
                             "claims/claims.json", "claims/list.json"}) {
      fs::create_directories(fs::path(out + "/" + file).parent_path());
      folder.write("out/" + std::string(file), std::string("content of ") + file);
    }
    results::collect(out);
  }
  ArchiveReport write(bool with_capture = false) const {
    return write_archive(archive, {.out = out, .study = "", .source = "/nonexistent", .with_capture = with_capture});
  }
  /// The members of an archive, by name.
  std::map<std::string, std::string> members() const {
    std::map<std::string, std::string> found;
    decompress(archive, [&](const results::ByteSource& source) {
      results::read_tar(source, archive, [&](const results::TarMember& member) {
        std::string& content = found[member.name];
        return [&content](std::string_view bytes) { content += bytes; };
      });
    });
    return found;
  }
  /// Writes an archive of these members, as a forger would: whole, with fresh check sums.
  void forge(const std::map<std::string, std::string>& with) const {
    compress_to(archive, [&](const results::ByteSink& sink) {
      results::TarWriter tar(sink);
      for (const auto& [name, content] : with) tar.add_text(name, content);
      tar.finish();
    });
    seal_archive(archive);
  }
  std::string complaint() const {
    return message_of<CorruptData>([&] { check_archive(archive); });
  }

  TemporaryFolder folder;
  const std::string out = folder / "out", archive = folder / "small.tar.zst";
  Study study;
  std::vector<PlannedCell> cells;
};

TEST_F(Archive, HoldsStudyRecordsLogsAndScriptsAndChecksOut) {
  const ArchiveReport report = write();
  EXPECT_EQ(report.cells, 6u);
  EXPECT_EQ(report.sha256, sha256_hex(TemporaryFolder::read(archive)));
  const CheckReport check = check_archive(archive);
  EXPECT_TRUE(check.problems.empty()) << check.problems.front();
  EXPECT_EQ(check.records, 6u);
  EXPECT_EQ(check.planned, 6u);
  EXPECT_EQ(check.missing, 0u);
  const auto found = members();
  for (const char* name : {"archive.json", "study/small.study.toml", "out/logs/0001.log", "out/slurm/job.sh", "out/machine.toml",
                           "out/figures/links.csv", "out/collected.h5", "out/claims/claims.json", "out/claims/list.json", "INVENTORY.sha256"})
    EXPECT_TRUE(found.contains(name)) << name;
  for (const char* name : {"out/capture.h5", "out/.lock", "out/cells/torn.h5.tmp", "out/leases/run.json"})
    EXPECT_FALSE(found.contains(name)) << name;
  EXPECT_NE(found.at("archive.json").find(sha256_hex("content of capture.h5")), std::string::npos);
  EXPECT_NE(found.at("INVENTORY.sha256").find(sha256_hex("content of logs/0001.log") + "  out/logs/0001.log\n"), std::string::npos);
  EXPECT_FALSE(fs::exists(archive + ".tmp"));
}

TEST_F(Archive, IsTheSameBytesWhenNothingChangedAndTakesTheCaptureWhenAsked) {
  write();
  const std::string first = TemporaryFolder::read(archive);
  fs::last_write_time(out + "/logs/0001.log", fs::file_time_type::clock::now() + std::chrono::hours(5));
  write();
  EXPECT_EQ(TemporaryFolder::read(archive), first);
  write(true);
  EXPECT_EQ(members().at("out/capture.h5"), "content of capture.h5");
}

TEST_F(Archive, OtherProgramsCanReadItAndCheckItsInventory) {
  write();
  if (std::system("tar --version > /dev/null 2>&1 && sha256sum --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no tar or sha256sum";
  fs::create_directory(folder / "x");
  EXPECT_EQ(std::system(("cd " + (folder / "x") + " && zstd -q -d -c " + archive + " | tar -x && sha256sum --quiet -c INVENTORY.sha256").c_str()), 0);
}

// What is compressed decides what a changed bit does: in a run of zeros a back reference may point elsewhere and nothing else changes.
// So contents vary in size and kind, and no bit of the file may be without meaning.
std::string content_of_kind(unsigned kind, std::mt19937_64& random) {
  std::string text;
  const std::size_t bytes = random() % 20000;
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint64_t word = random();
    text += kind == 0   ? static_cast<char>(word)
            : kind == 1 ? static_cast<char>('a' + word % 4)
            : kind == 2 ? static_cast<char>(i / 64)
                        : "lorem ipsum dolor "[word % 18];
  }
  return text;
}

TEST_F(Archive, AnyCutAnyFlippedBitAndAnyAddedByteIsFoundWhateverTheContent) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    folder.write("out/logs/0001.log", content_of_kind(seed % 4, random));
    write();
    const std::string whole = TemporaryFolder::read(archive);
    ASSERT_TRUE(check_archive(archive).problems.empty()) << seed;
    const auto expect_found = [&](const std::string& bytes, const std::string& what) {
      folder.write("small.tar.zst", bytes);
      EXPECT_TRUE(complaint().starts_with(archive + ": damaged: ")) << what << ", content of seed " << seed << ": " << complaint();
    };
    const auto flip = [&](std::size_t at, unsigned bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      expect_found(flipped, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    };
    // Heads of frame and block, the last block's end, zstd's check sum, the seal; then paths all over the file.
    for (std::size_t at = 0; at < 9; ++at)
      for (unsigned bit = 0; bit < 8; ++bit) flip(at, bit);
    for (std::size_t back = 1; back <= 120; ++back) flip(whole.size() - back, static_cast<unsigned>(random() % 8));
    for (int i = 0; i < 60; ++i) flip(random() % whole.size(), static_cast<unsigned>(random() % 8));
    for (const std::size_t left : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 97, whole.size() - 1, static_cast<std::size_t>(random() % whole.size())})
      expect_found(whole.substr(0, left), "cut after " + std::to_string(left));
    const std::string skippable("\x50\x2a\x4d\x18\4\0\0\0more", 12);
    expect_found(skippable + whole, "a skippable frame in front");
    expect_found(whole + skippable, "a skippable frame behind");
    expect_found(whole + whole, "the same again");
    expect_found(whole + std::string(1, '\0'), "a zero behind");
    compress_to(archive, [](const results::ByteSink& sink) { sink("more"); });
    expect_found(whole + TemporaryFolder::read(archive), "another frame behind");
  }
  EXPECT_NE(message_of<EnvironmentError>([&] { check_archive(folder / "none.tar.zst"); }).find("none.tar.zst"), std::string::npos);
}

TEST_F(Archive, BytesBehindItsEndAreFoundUnderARightSeal) {
  write();
  const auto good = members();
  for (const bool padding : {false, true}) {
    compress_to(archive, [&](const results::ByteSink& sink) {
      std::string tar;
      results::TarWriter writer([&](std::string_view bytes) { tar += bytes; });
      for (const auto& [name, content] : good) writer.add_text(name, content);
      writer.finish();
      const std::size_t first = good.begin()->second.size();  // std::map's order is the archive's
      ASSERT_NE(first % 512, 0u);
      if (padding) tar[512 + first] = 'x';
      sink(padding ? tar : tar + "hidden");
    });
    seal_archive(archive);
    EXPECT_NE(complaint().find(padding ? "is not zero" : "follow the end"), std::string::npos) << complaint();
  }
}

TEST_F(Archive, MissingExtraAndExchangedFilesAreNamed) {
  write();
  const auto good = members();
  auto bad = good;
  bad.erase("out/logs/0001.log");
  forge(bad);
  EXPECT_NE(complaint().find("`out/logs/0001.log` is in its inventory and not in the archive"), std::string::npos) << complaint();
  bad = good;
  bad["out/logs/0002.log"] = "more";
  forge(bad);
  EXPECT_NE(complaint().find("`out/logs/0002.log` is not in its inventory"), std::string::npos) << complaint();
  bad = good;
  bad["out/logs/0001.log"][0] ^= 1;
  forge(bad);
  EXPECT_NE(complaint().find("`out/logs/0001.log` differs"), std::string::npos) << complaint();
  bad = good;
  bad.erase("INVENTORY.sha256");
  forge(bad);
  EXPECT_NE(complaint().find("no inventory"), std::string::npos) << complaint();
}

TEST_F(Archive, AForgedInventoryDoesNotHideABadRecordOrAnotherStudy) {
  write();
  const auto good = members();
  const auto forged = [&](const std::string& name, const std::string& content) {
    auto bad = good;
    std::string& inventory = bad["INVENTORY.sha256"];
    inventory.replace(inventory.find(sha256_hex(bad.at(name))), 64, sha256_hex(content));
    bad[name] = content;
    forge(bad);
    const CheckReport report = check_archive(archive);
    return report.problems.empty() ? std::string() : report.problems.front();
  };
  const std::string record = "out/cells/" + cells[0].cell_id + ".h5";
  std::string damaged = good.at(record);
  damaged[700] = static_cast<char>(damaged[700] ^ 1);
  EXPECT_NE(forged(record, damaged).find("checksum"), std::string::npos);
  EXPECT_NE(forged(record, good.at("out/cells/" + cells[1].cell_id + ".h5")).find("another cell"), std::string::npos);
  std::string other = good.at("study/small.study.toml");
  other.replace(other.find("\"cast\""), 6, "\"quantize\"");
  EXPECT_NE(forged("study/small.study.toml", other).find("expands to other cells"), std::string::npos);
}

TEST(HostileArchive, NeverWritesOutsideAndIsRefusedByName) {
  if (!zstd_is_here()) GTEST_SKIP() << "the program zstd is not installed";
  const TemporaryFolder folder;
  const std::string archive = folder / "evil.tar.zst";
  // A member as `tar` would write it, with any name and kind; the sum of the header is right.
  const auto member = [](const std::string& name, char kind, const std::string& content, const std::string& link = "") {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(100, 7, "0000644");
    char size[16];
    std::snprintf(size, sizeof size, "%011zo", content.size());
    header.replace(124, 11, size);
    header.replace(136, 11, "00000000000");
    header.replace(148, 8, "        ");
    header[156] = kind;
    header.replace(157, link.size(), link);
    header.replace(257, 5, "ustar");
    header.replace(263, 2, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(size, sizeof size, "%06o", sum);
    header.replace(148, 6, size);
    header[154] = '\0';
    return header + content + std::string((512 - content.size() % 512) % 512, '\0');
  };
  const auto refused = [&](const std::string& members) {
    compress_to(archive, [&](const results::ByteSink& sink) { sink(members + std::string(1024, '\0')); });
    seal_archive(archive);
    return message_of<CorruptData>([&] { unpack_archive(archive, folder / "x/y"); });
  };
  for (const char* name : {"../evil", "/tmp/evil", "a/../../evil", "..", ".", "a//b", "a/./b", "", "a/", "a\\..\\b"})
    EXPECT_NE(refused(member(name, '0', "x")).find("unsafe name"), std::string::npos) << name;
  EXPECT_NE(refused(member("new\nline", '0', "x")).find("new?line"), std::string::npos);
  for (const char kind : {'1', '2', '3', '4', '5', '6', 'x', 'L', 'g'})
    EXPECT_NE(refused(member("a", kind, "", "/etc/passwd")).find("no plain file"), std::string::npos) << kind;
  EXPECT_NE(refused(member("a", '2', "", "..") + member("a/evil", '0', "x")).find("no plain file"), std::string::npos);
  EXPECT_NE(refused(member("a", '0', "x") + member("a", '0', "y")).find("twice"), std::string::npos);
  std::string wrong = member("a", '0', "x");
  wrong[0] = 'b';
  EXPECT_NE(refused(wrong).find("sum of a member's header"), std::string::npos);
  EXPECT_NE(refused("no tar at all" + std::string(600, 'x')).find("no tar archive"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "x/evil") || fs::exists(folder / "evil") || fs::exists("/tmp/evil"));
  EXPECT_FALSE(fs::exists(folder / "x/y"));  // nothing of a refused archive stays
  // A file where a folder is needed: an error of this program's own, not a way out.
  compress_to(archive, [&](const results::ByteSink& sink) { sink(member("a", '0', "x") + member("a/b", '0', "y") + std::string(1024, '\0')); });
  seal_archive(archive);
  EXPECT_THROW(unpack_archive(archive, folder / "x/y"), Error);
}

TEST_F(Archive, WhatCannotBeArchivedIsSaidAndLeavesTheOldOne) {
  folder.write("small.tar.zst", "old");
  const std::string record = results::record_path(out, cells[2].cell_id);
  const std::string bytes = TemporaryFolder::read(record);
  folder.write("out/cells/" + cells[2].cell_id + ".h5", bytes.substr(0, bytes.size() - 1));
  EXPECT_NE(message_of<CorruptData>([&] { write(); }).find(cells[2].cell_id), std::string::npos);
  EXPECT_FALSE(check_result_folder(out).problems.empty());
  fs::remove(record);
  if (fs::exists("/dev/full")) {
    fs::create_symlink("/dev/full", archive + ".tmp");
    EXPECT_THROW(write(), RuntimeFailure);
  }
  EXPECT_EQ(TemporaryFolder::read(archive), "old");
  const ArchiveReport report = write();
  EXPECT_EQ(report.cells, 5u);
  EXPECT_EQ(report.missing, 1u);
  EXPECT_TRUE(check_archive(archive).problems.empty());
  EXPECT_TRUE(check_result_folder(out).problems.empty());
  EXPECT_THROW(write_archive(archive, {.out = folder / "none", .study = "", .source = ""}), EnvironmentError);
  fs::remove(out + "/small.study.toml");
  EXPECT_THROW(write(), UsageError);
}

TEST_F(Archive, TheMachineOfTheLastRunIsTheOneKept) {
  Machine machine;
  machine.text = "name = 'cluster'\n";
  save_machine(machine, out);
  write();
  EXPECT_EQ(members().at("out/machine.toml"), machine.text);
  save_machine(Machine(), out);
  fs::remove_all(out + "/slurm");
  const ArchiveReport report = write();
  EXPECT_FALSE(members().contains("out/machine.toml"));
  EXPECT_TRUE(std::any_of(report.remarks.begin(), report.remarks.end(), [](const std::string& r) { return r.find("built-in") != std::string::npos; }));
}

TEST_F(Archive, ItsStudyRunsAgainInANewFolderOnly) {
  write();
  const std::string again = folder / "again";
  const std::string path = study_from_archive(archive, again);
  std::vector<std::string> ids, expected;
  for (const PlannedCell& cell : expand(read_study(path))) ids.push_back(cell.cell_id);
  for (const PlannedCell& cell : cells) expected.push_back(cell.cell_id);
  EXPECT_EQ(ids, expected);
  EXPECT_FALSE(fs::exists(again + "/cells"));
  EXPECT_EQ(TemporaryFolder::read(again + "/archived_machine.toml"), "content of machine.toml");
  EXPECT_FALSE(fs::exists(again + "/machine.toml"));
  EXPECT_EQ(study_from_archive(archive, again), path);  // the same command continues
  folder.write("again/small.study.toml", "[study]\nname = \"small\"\nprogram = \"bench_codec\"\nranks = 1\nlink = \"none\"\n[axes]\nseed = [7]\n");
  EXPECT_THROW(study_from_archive(archive, again), UsageError);
  fs::create_directories(folder / "other/cells");
  EXPECT_THROW(study_from_archive(archive, folder / "other"), UsageError);
}

}  // namespace
}  // namespace thinwire::sweep
