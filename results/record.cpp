#include "results/record.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "core/sha256.h"
#include "results/files/files.h"
#include "results/provenance.h"
#include "thinwire_version.h"

namespace thinwire::results {

namespace {

// The seal: one line of text in front of HDF5's own data. HDF5 and h5py skip it.
constexpr std::size_t record_seal_bytes = 512;
constexpr std::string_view seal_magic = "thinwire-record";
constexpr std::string_view remedy = "; remove the file and run the cell again (sweep run does)";

std::string seal_of(std::string_view content, const CellRecord& record) {
  std::string seal(seal_magic);
  seal += " schema=" + std::to_string(schema_version) + " bytes=" + std::to_string(content.size()) +
          " sha256=" + sha256_hex(content) + " cell=" + record.cell_id +
          " status=" + std::string(name_of(worst_status(record.rows))) + " code=" + code_of(record.provenance.binary_hash);
  if (const std::string corpus = corpus_of(record); !corpus.empty()) seal += " text=" + corpus.substr(0, 16);
  std::string reason;
  for (const CellRow& row : record.rows)
    if (row.status == name_of(worst_status(record.rows))) reason = row.reason;
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  seal += " reason=" + reason;
  // The reason comes last and may be cut; a cut inside a UTF-8 sequence drops the whole sequence.
  if (seal.size() > record_seal_bytes - 1) {
    seal.resize(record_seal_bytes - 1);
    while (!seal.empty() && (static_cast<unsigned char>(seal.back()) & 0xC0) == 0x80) seal.pop_back();
    if (!seal.empty() && (static_cast<unsigned char>(seal.back()) & 0x80) != 0) seal.pop_back();
  }
  seal += '\n';
  seal.resize(record_seal_bytes, '\0');
  return seal;
}

std::string_view field(std::string_view seal, std::string_view key) {
  const std::string start = " " + std::string(key) + "=";
  const std::size_t at = seal.find(start);
  if (at == std::string_view::npos) return {};
  const std::size_t from = at + start.size();
  return seal.substr(from, (key == "reason" ? seal.size() : seal.find(' ', from)) - from);
}

std::int64_t integer_field(std::string_view seal, std::string_view key) {
  const std::string_view text = field(seal, key);
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void validate(const CellRecord& record) {
  if (record.rows.empty())
    throw UsageError("the record of cell " + record.cell_id +
                     " has no row: a cell that was not measured needs one that says why");
  const auto belongs = [&](const std::string& id) {
    if (id != record.cell_id) throw UsageError("a row of cell `" + id + "` is in the record of cell " + record.cell_id);
  };
  for (const CellRow& row : record.rows) {
    parse_status(row.status);
    belongs(row.cell_id);
  }
  for_each_training_table(record.training, [&](const char*, const auto& rows, const auto&) {
    for (const auto& row : rows) belongs(row.cell_id);
  });
}

template <typename Row>
std::vector<Row> rows_of(const h5::File& file, const std::string& table,
                         std::span<const ColumnOf<Row>> columns) {
  return from_table(file.read_table(table), columns, file.file_name() + ": /" + table);
}

}  // namespace

static std::vector<std::size_t> sizes_of(const TrainingTables& tables) {
  std::vector<std::size_t> sizes;
  for_each_training_table(tables, [&](const char*, const auto& rows, const auto&) { sizes.push_back(rows.size()); });
  return sizes;
}

std::string record_path(const std::string& out, const std::string& cell_id) {
  return out + "/cells/" + cell_id + ".h5";
}

std::string corpus_of(const CellRecord& record) {
  for (const CellRow& row : record.rows)
    if (!row.corpus.empty()) return row.corpus;
  return "";
}

Status worst_status(std::span<const CellRow> rows) {
  constexpr std::array order = {Status::failed, Status::timeout, Status::wrong, Status::mistrusted,
                                Status::skipped};
  for (const Status status : order)
    for (const CellRow& row : rows)
      if (row.status == name_of(status)) return status;
  return Status::ok;
}

void write_cell_record(const std::string& path, const CellRecord& record) {
  validate(record);
  h5::File file = h5::File::create_in_memory();
  stamp(file);
  file.set_attribute("", "cell_id", record.cell_id);
  file.set_attribute("", "program", record.program);
  file.set_attribute("", "ranks", record.ranks);
  file.set_attribute("", "link", record.link);
  file.set_attribute("", "parameters", record.parameters.canonical_json());
  file.write_table("cells", to_table(std::span<const CellRow>(record.rows), cell_columns()));
  file.write_table("samples", to_table(std::span<const SampleRow>(record.samples), sample_columns()));
  file.write_table("links", to_table(std::span<const LinkRow>(record.links), link_columns()));
  // Most cells train nothing; a record without these tables is complete.
  for_each_training_table(record.training, [&]<typename Row>(const char* name, const std::vector<Row>& rows, std::span<const ColumnOf<Row>> columns) {
    if (!rows.empty()) file.write_table(name, to_table(std::span<const Row>(rows), columns));
  });
  file.write_table("provenance",
                   to_table(std::span<const Provenance>(&record.provenance, 1), provenance_columns()));
  const std::vector<std::byte> image = file.image();
  const std::string_view content(reinterpret_cast<const char*>(image.data()), image.size());
  const std::string bytes = seal_of(content, record).append(content);

  make_folder(std::filesystem::absolute(path).parent_path().string());
  const std::string temporary = path + ".tmp";
  try {
    write_file(temporary, bytes);
    if (const RecordCheck check = check_record(temporary); check.state != RecordState::finished)
      throw RuntimeFailure(temporary + ": what was written does not read back (" + check.reason +
                           "); is the disk failing?");
    const CellRecord back = read_cell_record(temporary);
    if (back.rows.size() != record.rows.size() || sizes_of(back.training) != sizes_of(record.training))
      throw RuntimeFailure(temporary + ": what was written does not read back; is the disk failing?");
    publish_file(path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

RecordCheck check_record(const std::string& path) {
  RecordCheck check;
  if (!std::filesystem::exists(path)) return check;
  check.state = RecordState::damaged;
  std::string bytes;
  try {
    bytes = read_file(path);
  } catch (const Error& e) {
    check.reason = e.what();
    return check;
  }
  std::string_view seal = std::string_view(bytes).substr(0, std::min(bytes.size(), record_seal_bytes));
  seal = seal.substr(0, seal.find('\n'));
  if (bytes.size() <= record_seal_bytes || !seal.starts_with(seal_magic)) {
    check.reason = "no seal of a finished record at its head (truncated, or not written by thinwire)";
    return check;
  }
  if (const std::int64_t version = integer_field(seal, "schema"); version != schema_version) {
    check.state = RecordState::other_schema;
    check.reason = "schema version " + std::to_string(version) + " where this program has " +
                   std::to_string(schema_version) + " (docs/renamed.md)";
    return check;
  }
  const std::string_view content = std::string_view(bytes).substr(record_seal_bytes);
  if (const std::int64_t length = integer_field(seal, "bytes");
      length != static_cast<std::int64_t>(content.size())) {
    check.reason = "it is " + std::to_string(content.size()) + " bytes long where its seal says " +
                   std::to_string(length);
    return check;
  }
  if (sha256_hex(content) != field(seal, "sha256")) {
    check.reason = "its content does not match the checksum in its seal";
    return check;
  }
  try {
    check.status = parse_status(field(seal, "status"));
  } catch (const CorruptData& e) {
    check.reason = e.what();
    return check;
  }
  check.state = RecordState::finished;
  check.cell_id = field(seal, "cell");
  check.code = field(seal, "code");
  check.text = field(seal.substr(0, seal.find(" reason=")), "text");  // where there is none, a reason may hold what looks like one
  check.reason = field(seal, "reason");
  return check;
}

CellRecord read_cell_record(const std::string& path) {
  const RecordCheck check = check_record(path);
  if (check.state == RecordState::missing) throw CorruptData(path + ": no such record" + std::string(remedy));
  if (check.state != RecordState::finished)
    throw CorruptData(path + ": " + check.reason + std::string(remedy));
  const h5::File file = h5::File::open_read(path);
  require_schema(file);
  CellRecord record;
  record.cell_id = file.text_attribute("", "cell_id");
  record.program = file.text_attribute("", "program");
  record.ranks = static_cast<int>(file.int_attribute("", "ranks"));
  record.link = file.text_attribute("", "link");
  record.parameters = Parameters::from_json(file.text_attribute("", "parameters"), path);
  record.rows = rows_of(file, "cells", cell_columns());
  record.samples = rows_of(file, "samples", sample_columns());
  record.links = rows_of(file, "links", link_columns());
  for_each_training_table(record.training, [&]<typename Row>(const char* name, std::vector<Row>& rows, std::span<const ColumnOf<Row>> columns) {
    if (file.has(name)) rows = rows_of(file, name, columns);
  });
  const auto provenance = rows_of(file, "provenance", provenance_columns());
  if (provenance.size() != 1)
    throw CorruptData(path + ": /provenance does not have one row" + std::string(remedy));
  record.provenance = provenance.front();
  return record;
}

void stamp(const h5::File& file) {
  file.set_attribute("", "schema_version", schema_version);
  file.set_attribute("", "thinwire_version", THINWIRE_VERSION);
  file.set_attribute("", "created", timestamp_now());
}

void write_h5_atomically(const std::string& path, const std::function<void(h5::File&)>& fill) {
  make_folder(std::filesystem::absolute(path).parent_path().string());
  const std::string temporary = path + ".tmp";
  try {
    {
      h5::File file = h5::File::create(temporary);
      stamp(file);
      fill(file);
      file.close();
    }
    require_schema(h5::File::open_read(temporary));
    publish_file(path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

void require_schema(const h5::Group& file) {
  if (!file.has_attribute("", "schema_version"))
    throw CorruptData(file.file_name() + ": no schema_version: this file was not written by thinwire");
  const std::int64_t version = file.int_attribute("", "schema_version");
  if (version != schema_version)
    throw CorruptData(file.file_name() + ": schema version " + std::to_string(version) +
                      " where this program has " + std::to_string(schema_version) +
                      "; use the thinwire that wrote it, write the file again, or convert a collected file (results/migrate.py, docs/renamed.md)");
}

}  // namespace thinwire::results
