// A study file (TOML): grids of cells, each a program with fixed parameters, axes that cross, axes that go
// together, exclusions and exceptions. Format: docs/sweeps.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/cell.h"

namespace thinwire::sweep {

using results::Parameters;
using results::ParameterValue;

/// One axis (`names` has one entry) or several that go together: point i gives values[i][k] to names[k].
struct Axis {
  std::vector<std::string> names;
  std::vector<std::vector<ParameterValue>> points;
};

/// Holds for a cell when every named parameter has one of the listed values.
struct Condition {
  std::map<std::string, std::vector<ParameterValue>> allowed;
  std::string where;  ///< file:line, for messages
  bool matches(const Parameters& parameters) const;
};

struct Override {
  Condition when;
  Parameters set;
};

/// `link` and `ranks` are axes or fixed values like the parameters, but belong to the launch.
struct Grid {
  std::string name;
  std::string program;
  Parameters fixed;
  std::vector<Axis> axes;  ///< first axis varies slowest
  std::vector<Condition> excludes;
  std::vector<Override> overrides;
  std::string
      ranks;  ///< product of parameter names and numbers, e.g. "tp*pp"; empty: tp*pp*dp of those present
  int omp_threads = 0;   ///< OMP_NUM_THREADS of each rank; 0: 1 with several ranks, else all cores
  double timeout = 120;  ///< seconds without news from the launch until its running cell is a TIMEOUT
  double minutes = 0;    ///< expected time of a cell, for plans and time limits of jobs; 0: not said
  double memory_gib = 0; ///< expected memory of a rank; 0: not said
  std::vector<std::string> tags;
  std::string where;
};

struct Study {
  std::string name;
  std::string description;
  std::string path;
  std::string text;  ///< of the file itself
  std::vector<Grid> grids;
};

/// Reads a study and what it includes. Throws EnvironmentError when a file cannot be read, UsageError naming
/// file and line for everything else: syntax, unknown keys (with the nearest valid one), empty or doubled
/// axes, axes of different length that should go together.
Study read_study(const std::string& path);

/// `--set name=value`: every grid that has the parameter gets this single value in place of axis or fixed
/// value. Throws UsageError when no grid has it (naming the nearest) or it is tied to others.
void apply_setting(Study& study, const std::string& assignment);

/// Gives the library that multiplies f32 matrices (results::product_library_parameter) to all cells that do not say it themselves. An empty choice changes nothing.
void apply_product_library(Study& study, const std::string& choice);

/// The study as one TOML file that needs no other: includes and sets resolved, settings applied, axes in their order. Reading it
/// back gives the same cells in the same order.
std::string to_toml(const Study& study);

/// A value as typed on a command line.
ParameterValue value_from_text(const std::string& text);

}  // namespace thinwire::sweep
