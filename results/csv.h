// A collected file as CSV, for those who do not read HDF5.
#pragma once

#include <string>

#include "results/hdf5/table.h"

namespace thinwire::results {

/// RFC 4180: a header line, commas, text in double quotes where it needs them, lines end in LF. Numbers are
/// the shortest text that reads back as the same f64; `nan`, `inf` and `-inf` as Python's float() takes them.
std::string to_csv(const Table& table);

/// Inverse of to_csv; `like` has the columns in the file's order and their types (rows do not matter). Throws
/// CorruptData, with `where` and the line, for another header, a wrong number of fields, a number that is
/// none, or an open quote.
Table table_from_csv(const std::string& text, const Table& like, const std::string& where);

/// Writes folder/TABLE.csv for every table of a collected file, and folder/columns.csv (table, column, type,
/// unit, meaning). The folder appears complete or not at all, in place of an older one. Returns the number of
/// tables. Throws EnvironmentError and CorruptData like read_collected, RuntimeFailure (disk full).
std::size_t export_csv(const std::string& collected, const std::string& folder);

}  // namespace thinwire::results
