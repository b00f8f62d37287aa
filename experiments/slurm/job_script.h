// The job script of an array.
#pragma once

#include <string>

#include "experiments/slurm/submission.h"

namespace thinwire::sweep {

/// The whole script: #SBATCH lines, the profile's modules, setup lines and environment, and one command, `sweep task FOLDER ARRAY`. Of
/// the study nothing but the paths of result folder and programs is in it, quoted. Throws UsageError when such a path holds a line
/// break, a double quote or a backslash, which #SBATCH lines cannot carry.
std::string job_script(const Submission& submission, std::size_t array);

/// "'it'\''s'": one word for a POSIX shell, whatever it holds.
std::string shell_quoted(const std::string& word);

}  // namespace thinwire::sweep
