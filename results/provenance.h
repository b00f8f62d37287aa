// Where a number comes from: source commit, binary, compiler, libraries as loaded, machine, environment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/cell.h"
#include "results/row.h"

namespace thinwire::results {

/// What this floor cannot know by itself.
struct ProvenanceInput {
  std::string launch = {};  ///< id of the launch; made up from time and process when empty
  std::string program = {};
  std::vector<std::string> command = {};  ///< argv
  std::string config_hash = {};           ///< e.g. SHA-256 of the launch file
  std::string corpus = {};                ///< SHA-256 of the text behind captured tensors, or empty
  std::int64_t seed = 0;
  std::string rank_map = {};  ///< e.g. "0-3:host"; names of hosts are hashed by the caller
  std::string gpu = {};       ///< device name, empty on the host
  /// Versions as loaded, under the keys mpi, blas, cuda, nccl. Missing: blas is looked up in this process,
  /// the others stay empty.
  std::map<std::string, std::string> versions = {};
};

/// OpenBLAS's description of itself, with its kernels; empty for another library.
std::string loaded_blas();

/// Of this host, 16 hexadecimal digits; empty where it has no name.
std::string hashed_hostname();

/// Fills everything but `finished`. Reads /proc and the build information; starts no process.
Provenance collect_provenance(const ProvenanceInput& input);

/// SHA-256 of a program's file, as `binary_hash` records it for the program that runs; empty when it cannot be read. A file whose size and times are those of the last call is not read again.
std::string hash_of_binary(const std::string& path);
/// What the seal of a record keeps of a binary hash: enough to tell one build from another.
inline std::string code_of(const std::string& binary_hash) { return binary_hash.substr(0, 16); }

/// UTC, ISO 8601 with milliseconds: "2024-01-31T12:00:00.123Z".
std::string timestamp_now();
/// One argument quoted for a POSIX shell, for the `repro` and `command` columns.
std::string shell_quoted(const std::string& argument);
std::string shell_command(const std::vector<std::string>& arguments);
/// Names of the environment variables whose values are recorded.
const std::vector<std::string>& recorded_environment();

}  // namespace thinwire::results
