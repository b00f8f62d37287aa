// The record of one finished cell: OUT/cells/<cell_id>.h5. It appears complete or not at all, and carries a
// seal (length and SHA-256, in 512 bytes in front of the HDF5 data) by which a damaged file is told in one
// read.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "results/cell.h"
#include "results/hdf5/hdf5.h"
#include "results/row.h"

namespace thinwire::results {

struct CellRecord {
  std::string cell_id;
  std::string program;
  int ranks = 1;
  std::string link = "shm";
  Parameters parameters;
  std::vector<CellRow> rows;       ///< one per traffic class, at least one
  std::vector<SampleRow> samples;  ///< may be empty
  std::vector<LinkRow> links;      ///< calibrations made for this cell; may be empty
  TrainingTables training;         ///< of a training run; empty elsewhere
  Provenance provenance;
};

/// SHA-256 of the text that a cell was trained on; empty: none.
std::string corpus_of(const CellRecord& record);

/// Where the record of a cell lies: out + "/cells/" + cell_id + ".h5".
std::string record_path(const std::string& out, const std::string& cell_id);

/// Writes path + ".tmp", closes, opens and compares, seals, fsyncs, renames, fsyncs the folder. Throws
/// RuntimeFailure (disk full) or EnvironmentError (no right to write); then `path` is as it was before and no
/// temporary file remains.
void write_cell_record(const std::string& path, const CellRecord& record);

/// Throws CorruptData when the file is damaged or has another schema version, saying what to do.
CellRecord read_cell_record(const std::string& path);

enum class RecordState { missing, finished, damaged, other_schema };
struct RecordCheck {
  RecordState state = RecordState::missing;
  std::string cell_id;
  Status status = Status::ok;  ///< worst status of its rows, when finished
  std::string reason;          ///< why damaged or other_schema; the row's reason when finished
  std::string code;            ///< code_of the program that wrote it; empty in records older than this field
  std::string text;            ///< first 16 digits of the SHA-256 of the text behind it (CellRow::corpus); empty: none, or a record older than this field
};
/// Verifies the seal: one read of the file, without HDF5.
RecordCheck check_record(const std::string& path);
inline bool is_finished(const std::string& path) {
  return check_record(path).state == RecordState::finished;
}

/// The most severe status: FAILED, TIMEOUT, WRONG, MISTRUSTED, SKIPPED, OK in this order.
Status worst_status(std::span<const CellRow> rows);

/// Sets the attributes schema_version, thinwire_version and created.
void stamp(const h5::File& file);

/// Writes an HDF5 file that appears complete or not at all: `fill` receives path + ".tmp", which is then
/// closed, opened again, flushed to disk and renamed. For collected.h5, capture.h5 and their like. Sets the
/// attributes schema_version, thinwire_version and created.
void write_h5_atomically(const std::string& path, const std::function<void(h5::File&)>& fill);

/// Throws CorruptData unless the file's schema_version is ours: names both and the remedy.
void require_schema(const h5::Group& file);

}  // namespace thinwire::results
