// The commands of `sweep`, one file each. A command adds its options to the command line and hands back what runs when it was given.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace thinwire::sweep {

/// Returns the exit status. Throws like any main (core/process/main_guard.h).
using CommandBody = std::function<int()>;

CommandBody add_plan_command(CLI::App& command);
CommandBody add_run_command(CLI::App& command);
CommandBody add_resume_command(CLI::App& command);
CommandBody add_submit_command(CLI::App& command);
CommandBody add_task_command(CLI::App& command);
CommandBody add_rank_command(CLI::App& command);
CommandBody add_status_command(CLI::App& command);
CommandBody add_collect_command(CLI::App& command);
CommandBody add_compare_command(CLI::App& command);
CommandBody add_archive_command(CLI::App& command);
CommandBody add_validate_command(CLI::App& command);

}  // namespace thinwire::sweep
