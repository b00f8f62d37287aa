// labels: unit
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/random.h"
#include "results/csv.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"
#include "results/schema.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire::results {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

const double infinite = std::numeric_limits<double>::infinity();

Table odd_table() {
  return {{{"text, odd",
            std::vector<std::string>{"", "a,b", "say \"x\"", "two\nlines", " spaces ", "grün", "nan"}},
           {"count", std::vector<std::int64_t>{0, -1, 1LL << 62, 3, 4, 5, 6}},
           {"value", std::vector<double>{0.1, -0.0, infinite, -infinite, 1e-300, 1.0 / 3, std::nan("")}}}};
}

void expect_equal(const Table& a, const Table& b) {
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (std::size_t c = 0; c < a.columns.size(); ++c) {
    EXPECT_EQ(a.columns[c].name, b.columns[c].name);
    if (const auto* values = std::get_if<std::vector<double>>(&a.columns[c].values)) {
      const auto& others = std::get<std::vector<double>>(b.columns[c].values);
      ASSERT_EQ(values->size(), others.size());
      for (std::size_t i = 0; i < values->size(); ++i)
        EXPECT_TRUE((std::isnan((*values)[i]) && std::isnan(others[i])) ||
                    std::memcmp(&(*values)[i], &others[i], sizeof(double)) == 0)
            << a.columns[c].name << " " << i;
    } else {
      EXPECT_TRUE(a.columns[c].values == b.columns[c].values) << a.columns[c].name;
    }
  }
}

TEST(Csv, WhatIsWrittenIsReadBitForBit) {
  const Table table = odd_table();
  expect_equal(table_from_csv(to_csv(table), table, "odd.csv"), table);
}

TEST(Csv, EveryTableOfACollectedFileComesBack) {
  const TemporaryFolder folder;
  const Random random(20260101, "csv");
  std::map<std::string, Table> tables;
  std::uint64_t next = 0;
  for (const TableSchema& schema : all_tables()) {
    Table& table = tables[schema.name];
    for (const ColumnSchema& column : schema.columns) {
      table.columns.push_back({column.name, {}});
      if (column.type == "string")
        table.columns.back().values = std::vector<std::string>{"x", "a, \"b\"", "c\nd"};
      else if (column.type == "i64")
        table.columns.back().values =
            std::vector<std::int64_t>{1, -2, static_cast<std::int64_t>(random.bits64(next++))};
      else
        table.columns.back().values =
            std::vector<double>{random.normal(next++), std::nan(""), random.normal(next++) * 1e200};
    }
  }
  write_h5_atomically(folder / "collected.h5", [&](h5::File& file) {
    for (const auto& [name, table] : tables) file.write_table(name, table);
  });
  for (int again = 0; again < 2; ++again) {  // the second time in place of the first
    EXPECT_EQ(export_csv(folder / "collected.h5", folder / "csv"), tables.size());
    for (const auto& [name, table] : tables)
      expect_equal(table_from_csv(TemporaryFolder::read(folder / ("csv/" + name + ".csv")), table, name),
                   table);
    EXPECT_NE(TemporaryFolder::read(folder / "csv/columns.csv").find("\ncells,total_us,f64,microseconds,"),
              std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder / "csv.tmp"));
    folder.write("csv/stale.csv", "gone the second time");
  }
}

TEST(Csv, DamageIsNamedWithItsLine) {
  const Table table = odd_table();
  const std::string good = to_csv(table);
  const auto message = [&](const std::string& text) {
    return message_of<CorruptData>([&] { table_from_csv(text, table, "odd.csv"); });
  };
  EXPECT_NE(message(good.substr(0, good.size() - 1)).find("has no end"), std::string::npos);
  EXPECT_NE(message(good.substr(0, good.find("two") + 3)).find("quote"), std::string::npos);
  EXPECT_NE(message(good + "a,1\n").find("record 9: 2 fields"), std::string::npos);
  EXPECT_NE(message(good + "a,1,x\n").find("`x` is no number"), std::string::npos);
  EXPECT_NE(message(good + "a,1.5,1\n").find("column count"), std::string::npos);
  EXPECT_NE(message("a,b,c\n").find("another version"), std::string::npos);
}

TEST(Csv, AFailingExportLeavesTheOldFolder) {
  const TemporaryFolder folder;
  EXPECT_THROW(export_csv(folder / "none.h5", folder / "csv"), EnvironmentError);
  folder.write("bad.h5", "not HDF5");
  std::filesystem::create_directory(folder / "csv");
  folder.write("csv/cells.csv", "old");
  EXPECT_THROW(export_csv(folder / "bad.h5", folder / "csv"), CorruptData);
  EXPECT_EQ(TemporaryFolder::read(folder / "csv/cells.csv"), "old");
}

std::string schema_document() {
  return TemporaryFolder::read(testing::source_folder() + "/docs/results-schema.md");
}

TEST(Schema, TheDocumentHasEveryTableAndNoOther) {
  std::istringstream text(schema_document());
  std::vector<std::string> documented, defined;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("## Table `/")) documented.push_back(line.substr(11, line.size() - 12));
  for (const TableSchema& table : all_tables()) defined.push_back(table.name);
  EXPECT_EQ(documented, defined);
}

TEST(Schema, EveryNumberHasAUnitAndTheDocumentSaysWhich) {
  const std::string document = schema_document();
  for (const TableSchema& table : all_tables())
    for (const ColumnSchema& column : table.columns)
      EXPECT_EQ(column.unit.empty(), column.type == "string") << table.name << "." << column.name;
  std::string rows;
  for (const UnitRule& rule : unit_rules())
    rows += std::string("| `") + rule.columns + "` | " + rule.unit + " |\n";
  EXPECT_NE(document.find("| columns | unit |\n|---|---|\n" + rows), std::string::npos) << rows;
}

}  // namespace
}  // namespace thinwire::results
