// A program's command line read with CLI11, and what it says when that fails.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "core/error.h"

namespace thinwire {

/// Reads the command line; the exit status where help was asked for and printed, else nothing. Throws UsageError for what `app`, which must have
/// a name, does not know.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string name = app.get_name();
    throw UsageError(name + ": " + error.what() + ". All options: " + name + " --help" + (app.get_subcommands({}).empty() ? "" : ", " + name + " COMMAND --help"));
  }
  return std::nullopt;
}

}  // namespace thinwire
