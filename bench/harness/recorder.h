// Writes down what a bench measures: table, JSON lines, journal, one record per finished cell. Rank 0 writes.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"
#include "bench/harness/disturbance_meter.h"
#include "bench/tables/table.h"
#include "results/cell.h"
#include "results/journal.h"

namespace thinwire::bench {

struct RecorderOptions {
  std::string program;
  std::vector<std::string> command;  ///< argv
  std::string out;                   ///< result folder; empty: nothing is recorded
  std::string json;                  ///< file for JSON lines, "-" = stdout, empty = none
  std::string link = "shm";
  std::string launch;                ///< id; made up when empty
  std::string config_hash;
  ReadCpu read_cpu = thinwire::read_cpu;  ///< of every rank
};

class Recorder {
 public:
  /// Collective. Rank 0 opens journal and JSON file: EnvironmentError when they cannot be written. Every rank
  /// registers a failure hook that names the running cell in the journal.
  Recorder(RecorderOptions options, Communicator& world);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The parameters as given (without defaults): they are the cell's identity.
  void declare(const std::string& cell_id, results::Parameters parameters);
  void launch_started();
  /// Collective where results are recorded: from here to finish() the machine's disturbance is measured.
  void start(const Cell& cell);
  void note(const Cell& cell, const std::string& text);
  /// Collective, likewise. Completes identity columns, prints, appends JSON, writes the record, then the journal.
  void finish(const Cell& cell, Measured measured);
  void launch_finished();
  /// 0; 1 when a row was WRONG; 2 when a cell given on the command line FAILED.
  int exit_status() const { return exit_status_; }

 private:
  void complete(const Cell& cell, results::CellRow& row) const;

  RecorderOptions options_;
  Communicator& world_;
  std::map<std::string, results::Parameters> parameters_;
  std::unique_ptr<results::Journal> journal_;
  std::string journal_path_, running_;
  std::string rank_map_;  ///< on rank 0: "0-3:HOST,4-7:HOST", hosts by the hash of their name
  std::optional<DisturbanceMeter> meter_;  ///< where results are recorded
  std::FILE* json_ = nullptr;
  std::unique_ptr<RowTable> table_;
  int hook_ = 0;
  int exit_status_ = 0;
};

}  // namespace thinwire::bench
