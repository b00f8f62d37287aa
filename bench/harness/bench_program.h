// What every bench program shares: options, launch files, groups of cells, records. A bench is a name, a list
// of options with defaults, a grouping key and one function that measures a group (contract by the lead; the
// machinery behind it is bench_program.cpp).
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "results/row.h"

namespace thinwire::bench {

/// One parameter of a bench = one long option = one key of a cell's parameters.
struct BenchOption {
  std::string name;           ///< "batch" is --batch and parameters["batch"]
  std::string default_value;  ///< as text; empty = none
  std::string help;
  bool may_be_bare = false;    ///< --name alone means --name true
  std::string group = "Cell";  ///< heading in --help
};

/// An option of the run, not of a cell: it changes what is shown or written beside the record, never what is measured.
struct RunOption {
  std::string name;
  std::string help;
  bool takes_value = true;  ///< else its value is "true" when it is given
};

/// The parameters of one cell, as the launch file or the command line gives them; numbers are kept as text.
class CellParameters {
 public:
  /// Throws UsageError naming the parameter when it is missing (and has no default) or not a number.
  std::string text(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool flag(const std::string& name) const;
  bool has(const std::string& name) const { return values.count(name) != 0; }
  std::map<std::string, std::string> values;
};

struct Cell {
  std::string cell_id;
  CellParameters parameters;
};

/// What measuring a cell gave: rows of /cells (one per traffic class) and their samples. Only rank 0's counts;
/// identity columns (cell_id, program, method, codec, form, link, shape, seed, repro, ...) are filled in by the
/// runner from the parameters where the bench left them empty.
struct Measured {
  std::vector<results::CellRow> rows;
  std::vector<results::SampleRow> samples;
  std::vector<results::LinkRow> links;  ///< calibrations of the link made for this cell
  results::TrainingTables training;     ///< of a training run
  double unigram_entropy = results::not_measured, bigram_entropy = results::not_measured;  ///< of its text's bytes, nats
};

struct BenchContext {
  Communicator& world;
  bool check_only = false;  ///< --check: verify, do not time
  std::string link;         ///< "shm", "netns:100mbit", ...
  /// Rank 0 records a finished cell (written to disk at once). Every rank must call it for every cell.
  std::function<void(const Cell&, Measured)> finish;
  /// Marks the start of a cell in the journal (progress, watchdog, blame).
  std::function<void(const Cell&)> start;
  /// A line about the running cell in the journal: what happened; also tells a sweep that it is alive. Rank 0 writes.
  std::function<void(const Cell&, const std::string&)> note = {};
  std::map<std::string, std::string> run_options = {};  ///< the program's own, as given
  std::FILE* text = stdout;  ///< where text for people goes (stderr when stdout carries JSON)
  /// Folder where a cell of a launch keeps what it takes to go on after an early end; empty without a launch file.
  std::string resume = {};
  /// Set by a cell that ended early on request (core/process/stop_request.h) and saved its state: it has no record yet.
  bool stopped = false;
  /// Cells come from a launch file: what goes wrong in one is a row of its own (guarded below), and the job goes on.
  bool launched = false;
  /// The ranks of `world` where `world` takes an emulated link's time; see bookkeeping.
  Communicator* unslowed = nullptr;

  /// The ranks of `world` for what is no part of the measured: files read and written by rank 0 for all.
  Communicator& bookkeeping() const { return unslowed != nullptr ? *unslowed : world; }
};

struct CommandLine;

struct BenchProgram {
  std::string name;
  std::string summary;
  std::vector<BenchOption> options;
  std::vector<RunOption> run_options = {};
  bool has_timing_options = true;  ///< --repetitions, --min-time, --max-time
  /// The command line asks for what rank 0 alone tells, without MPI; the others have nothing to do.
  std::function<bool(const CommandLine&)> answers = {};
  /// Sees the command line before MPI starts; may change the cell's values (a file of parameters). False: all is answered.
  std::function<bool(CommandLine&)> prepare = {};
  /// Cells with equal keys are handed to run_group together (in launch order), so that one interleaved baseline
  /// serves all of them. Default: every cell alone.
  std::function<std::string(const CellParameters&)> group_key;
  /// Measures the group; calls start/finish per cell. A thinwire::Error thrown for one cell on all ranks alike
  /// should be caught per cell with `guarded` below; an error on one rank alone aborts the job.
  std::function<void(BenchContext&, std::span<const Cell>)> run_group;
};

/// A group_key: cells that agree in these parameters share a group.
std::function<std::string(const CellParameters&)> grouped_by(std::vector<std::string> names);

/// Runs `body` for one cell; if any rank throws a UsageError or WrongResult, all ranks agree (all-reduce) and
/// the cell gets one row with status FAILED/WRONG/SKIPPED and the reason; returns whether it went well.
bool guarded(BenchContext& context, const Cell& cell, const std::function<void()>& body);

/// The main of every bench: MPI, options (--cells FILE, --out DIR, --list, --check, --json FILE|-, and one long
/// option per BenchOption), launch file or single cell, journal, records, table on stdout.
int run_bench(int argc, char** argv, const BenchProgram& program);

}  // namespace thinwire::bench
