// The verbs of `sweep`, one file each. A verb adds its options to the command line and hands back what runs when it was given.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace thinwire::sweep {

/// Returns the exit status. Throws like any main (core/process/main_guard.h).
using VerbBody = std::function<int()>;

VerbBody add_plan_verb(CLI::App& verb);
VerbBody add_run_verb(CLI::App& verb);
VerbBody add_resume_verb(CLI::App& verb);
VerbBody add_submit_verb(CLI::App& verb);
VerbBody add_task_verb(CLI::App& verb);
VerbBody add_rank_verb(CLI::App& verb);
VerbBody add_status_verb(CLI::App& verb);
VerbBody add_collect_verb(CLI::App& verb);
VerbBody add_compare_verb(CLI::App& verb);
VerbBody add_archive_verb(CLI::App& verb);
VerbBody add_validate_verb(CLI::App& verb);

}  // namespace thinwire::sweep
