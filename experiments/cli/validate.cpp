// sweep validate: does an archive, or a result folder, hold what it says?
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/process/log.h"
#include "experiments/archive/archive.h"
#include "experiments/cli/command.h"

namespace thinwire::sweep {
namespace {

int validate(const std::string& path) {
  const CheckReport report =
      std::filesystem::is_directory(path) ? check_result_folder(path) : check_archive(path);
  for (const std::string& problem : report.problems) log_error(problem);
  std::printf(
      "%s: %zu files, %zu records, %zu cells planned, %zu without a record: %s\n", path.c_str(), report.files,
      report.records, report.planned, report.missing,
      report.problems.empty() ? "sound" : (std::to_string(report.problems.size()) + " problems").c_str());
  return report.problems.empty() ? 0 : static_cast<int>(ExitCode::runtime_failure);
}

}  // namespace

CommandBody add_validate_command(CLI::App& command) {
  auto path = std::make_shared<std::string>();
  command.add_option("path", *path, "archive (FILE.tar.zst) or result folder")->required();
  return [path] { return validate(*path); };
}

}  // namespace thinwire::sweep
