// The journal of a launch: JSON lines, appended and flushed one by one, so that a killed run tells how far it
// came. One writer (rank 0). Reading tolerates a torn last line.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"

namespace thinwire::results {

struct JournalEntry {
  /// launch_started, cell_started, cell_finished, cell_failed, launch_finished, message; after the program's end the sweep adds
  /// cell_retry (the failure of an attempt that is not the last) and cell_verdict (the record that the sweep wrote)
  std::string event;
  std::string cell_id;  ///< empty for events of the launch
  std::string reason;   ///< why it failed, or a remark
  double time = 0;      ///< seconds since the epoch, set by append: for people, wall clocks jump
  double elapsed = 0;   ///< seconds since the writer opened the journal, monotonic, set by append
};

class Journal {
 public:
  /// Opens OUT/journal/<launch>.jsonl for appending (makes the folder). Throws EnvironmentError when it
  /// cannot be written. A torn line of a killed predecessor is ended first.
  explicit Journal(const std::string& path);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  /// One line by one write(2); it outlives a SIGKILL that follows. Throws RuntimeFailure (disk full).
  void append(const JournalEntry& entry);
  void cell_started(const std::string& cell_id) { append({"cell_started", cell_id, ""}); }
  void cell_finished(const std::string& cell_id) { append({"cell_finished", cell_id, ""}); }
  void cell_failed(const std::string& cell_id, const std::string& reason) {
    append({"cell_failed", cell_id, reason});
  }

 private:
  std::string path_;
  int file_ = -1;
  Stopwatch opened_;
};

/// Reads the lines of a journal that another process may be writing.
class JournalReader {
 public:
  explicit JournalReader(std::string path) : path_(std::move(path)) {}
  /// Complete lines since the last call; a line without its end is left for later. Lines that are no JSON
  /// object are counted and passed over. A file that does not exist (yet) has no lines.
  std::vector<JournalEntry> poll();
  int damaged_lines() const { return damaged_; }

 private:
  std::string path_;
  std::size_t offset_ = 0;
  int damaged_ = 0;
};

}  // namespace thinwire::results
