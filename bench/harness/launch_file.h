// The launch file: the cells that one start of a bench measures, written by a sweep.
//   {"schema":1,"launch":"ID","out":"DIR","link":"shm","cells":[{"cell_id":"...","parameters":{...}}, ...]}
#pragma once

#include <string>
#include <vector>

#include "results/cell.h"

namespace thinwire::bench {

struct LaunchCell {
  std::string cell_id;
  results::Parameters parameters;
};
struct Launch {
  std::string launch, out, link = "shm";
  std::string resume;  ///< folder where cells keep what it takes to go on after an early end; may be empty
  std::string hash;  ///< SHA-256 of the file
  std::vector<LaunchCell> cells;
};

/// Throws EnvironmentError when the file cannot be read, UsageError when it is no launch file of this schema,
/// naming the place.
Launch read_launch_file(const std::string& path);

/// A parameter as typed on a command line: whole numbers, numbers, true/false, else text.
results::ParameterValue parameter_from_text(const std::string& text);

}  // namespace thinwire::bench
