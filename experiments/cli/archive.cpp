// sweep archive: a result folder as one file.
#include "experiments/archive/archive.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/process/log.h"
#include "experiments/study/saved_study.h"
#include "experiments/study/study.h"
#include "experiments/cli/command.h"

namespace thinwire::sweep {
namespace {

struct ArchiveVerbOptions : ArchiveOptions {
  std::string file;
};

int archive(ArchiveVerbOptions options) {
  if (options.file.empty())
    options.file =
        read_study(options.study.empty() ? find_saved_study(options.out) : options.study).name + ".tar.zst";
  const ArchiveReport report = write_archive(options.file, options);
  for (const std::string& remark : report.remarks) log_warning(remark);
  std::printf("%s: %zu cells, %zu files, %.1f MiB, SHA-256 %s\n", report.path.c_str(), report.cells,
              report.files, static_cast<double>(report.bytes) / (1 << 20), report.sha256.c_str());
  return 0;
}

}  // namespace

CommandBody add_archive_command(CLI::App& command) {
  auto options = std::make_shared<ArchiveVerbOptions>();
  options->out = "out";
  command.add_option("file", options->file, "archive to write (default: STUDY.tar.zst here)");
  command.add_option("--out", options->out, "result folder")->capture_default_str();
  command.add_option("--study", options->study, "study file (default: the one that was run in OUT)");
  command.add_option("--source", options->source,
                  "git checkout that has the records' commits (default: where this program was built)");
  command.add_flag("--with-capture", options->with_capture, "also OUT/capture.h5, which may have gigabytes");
  return [options] { return archive(*options); };
}

}  // namespace thinwire::sweep
