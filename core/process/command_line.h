// A program's command line read with CLI11, and what it says when that fails.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/process/build_info.h"
#include "core/process/environment.h"

namespace thinwire {

/// Reads the command line, which also knows --version; the exit status where that or help was asked for and printed (by the first rank, where a launcher started some), else nothing. Throws UsageError for what `app`, which must have
/// a name, does not know.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", version_text(app.get_name()), "version, source commit and compiler");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help or version
    return Environment::launch_rank().value_or(0) == 0 ? app.exit(asked) : asked.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const std::string name = app.get_name();
    throw UsageError(name + ": " + error.what() + ". All options: " + name + " --help" + (app.get_subcommands({}).empty() ? "" : ", " + name + " COMMAND --help"));
  }
  return std::nullopt;
}

}  // namespace thinwire
