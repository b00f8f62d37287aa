// The checks of `doctor`: what the main job needs of a machine, each tried out rather than looked up.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thinwire::bench {

enum class Verdict { ok, note, failed };  ///< note: the main job runs without it, with less
std::string name_of(Verdict verdict);     ///< "ok", "note", "FAILED"

struct Finding {
  Verdict verdict = Verdict::ok;
  std::string detail;  ///< what was seen, one line
  std::string advice;  ///< what to do about it, one line; empty when all is well
};

/// What the checks are told about this installation.
struct DoctorContext {
  std::string program;      ///< path of this executable
  std::string source;       ///< folder of the repository; empty when not found
  std::string out = ".";    ///< where results would be written
  bool quick = false;
};

struct Check {
  std::string name;
  bool required = true;     ///< the main job cannot run without it
  double limit_s = 20;
  std::function<Finding(const DoctorContext&)> body;  ///< runs in a child process
};
const std::vector<Check>& doctor_checks();

/// Runs one check in a child process. A hang, a crash or an escape is FAILED with how it ended; where the check is
/// not required, FAILED becomes a note.
Finding run_check(const Check& check, const DoctorContext& context);

/// The repository this executable belongs to: THINWIRE_SOURCE_DIR, or the nearest folder above the executable that
/// holds experiments/lab/launch.sh, or the one it was built from. Empty when there is none.
std::string find_source(const std::string& program);

}  // namespace thinwire::bench
