// Files that appear complete or not at all, and folders.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace thinwire::results {

/// Makes a folder and its parents. Throws EnvironmentError naming it when that is not possible.
void make_folder(const std::string& path);

/// The whole file; throws EnvironmentError when it cannot be read.
std::string read_file(const std::string& path);

/// Writes a file in place. Throws RuntimeFailure (disk full) or EnvironmentError (no right to write).
void write_file(const std::string& path, std::string_view bytes);

/// fsync(path + ".tmp"), rename to `path`, fsync the folder. With THINWIRE_FSYNC=0 the rename alone.
void publish_file(const std::string& path);

/// Writes path + ".tmp" and publishes it. On failure (RuntimeFailure: disk full; EnvironmentError: no right)
/// `path` is unchanged and no temporary file remains.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace thinwire::results
