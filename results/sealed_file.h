// HDF5 files whose every byte is covered by a check sum: 512 bytes in front of HDF5's own data (which it and h5py skip) hold length
// and SHA-256 of the rest. A file that was cut or changed anywhere is told before HDF5 reads it. For data that is too large to be
// built in memory; cell records (results/record.h) carry a seal of the same kind.
#pragma once

#include <functional>
#include <string>

#include "results/hdf5/hdf5.h"

namespace thinwire::results {

/// Writes path + ".tmp" (`fill` makes its content), seals it, flushes it to disk and renames it: whatever happens on the way, `path`
/// holds the old file or the whole new one. `kind` is one word that says what the file is, `version` of what form. RuntimeFailure
/// (disk full) or EnvironmentError (no right to write); then no temporary file remains.
void write_sealed_h5(const std::string& path, const std::string& kind, int version, const std::function<void(h5::File&)>& fill);

/// Reads the whole file once. EnvironmentError when it is not there; UsageError when it is of another kind or version (naming both);
/// CorruptData when it is cut or changed, saying where and `remedy`.
void check_seal(const std::string& path, const std::string& kind, int version, const std::string& remedy);

}  // namespace thinwire::results
