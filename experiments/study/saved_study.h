// The study of a result folder: what `run` and `submit` leave there so that the folder can be continued without the file it came from.
#pragma once

#include <string>

#include "experiments/study/machine.h"
#include "experiments/study/study.h"

namespace thinwire::sweep {

/// OUT/<name>.study.toml.
std::string saved_study_path(const std::string& out, const std::string& name);
/// Writes it: one file that needs no other, with --set applied. Left alone when it is the same already. Throws like write_file_atomically.
void save_study(const Study& study, const std::string& out);
/// OUT/machine.toml: the profile that the last run or submission in this folder used, as its file had it; none for the built-in default.
void save_machine(const Machine& machine, const std::string& out);
/// The one study of the folder. Throws UsageError when there is none or several, naming them.
std::string find_saved_study(const std::string& out);

}  // namespace thinwire::sweep
