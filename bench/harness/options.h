// The command line of a bench program. Long options only; CLI11 lives behind this header.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

struct CommandLine {
  std::string cells_file;  ///< --cells: launch file of a sweep; empty: one cell from the options below
  std::string out;         ///< --out: result folder; empty: nothing is recorded
  std::string json;        ///< --json: rows as JSON lines to this file, "-" = stdout
  std::string link = "shm";  ///< --link: name of the link that the launcher made
  bool check_only = false;   ///< --check
  std::string product_library;  ///< --product-library, or what the machine file says (product_choice.h); empty: OpenBLAS as it comes
  std::map<std::string, std::string> values;  ///< parameters given explicitly
  std::map<std::string, std::string> run_options;  ///< of the program's run_options, those given
};

/// The program's options and those that every bench has beside its own: seed and, where it wants them, repetitions, min-time, max-time.
std::vector<BenchOption> all_options(const BenchProgram& program);

/// Empty when --help, --version or --list was asked for and answered on stdout. Throws UsageError for everything that the
/// parser refuses: unknown options (with the nearest name), missing values, options beside --cells.
std::optional<CommandLine> parse_command_line(int argc, char** argv, const BenchProgram& program);

/// Codecs, wrappers and their parameters with range and default, as --list prints them.
std::string list_of_codecs();

}  // namespace thinwire::bench
