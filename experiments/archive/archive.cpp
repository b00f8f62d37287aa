#include "experiments/archive/archive.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/sha256.h"
#include "experiments/archive/archive_files.h"
#include "experiments/archive/archive_seal.h"
#include "experiments/study/expand.h"
#include "experiments/run/process.h"
#include "experiments/study/saved_study.h"
#include "experiments/archive/zstd.h"
#include "results/files/files.h"
#include "results/record.h"
#include "results/files/tar.h"
#include "thinwire_version.h"

namespace thinwire::sweep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What of a result folder is kept. The rest (locks, leases, temporary files, saved states) is only named.
bool is_kept(const std::string& path, bool with_capture) {
  if (path.ends_with(".tmp")) return false;
  for (const char* folder : {"cells/", "figures/", "journal/", "launches/", "logs/", "slurm/"})
    if (path.starts_with(folder)) return true;
  if (path == "claims/claims.json" || path == "claims/list.json") return true;  // verdicts, which the report shows
  return path == "collected.h5" || path == "report.html" || path == "machine.toml" ||
         path.ends_with(".study.toml") || (with_capture && path == "capture.h5");
}

std::string hash_of_file(const std::string& path) {
  std::string hash;
  results::TarWriter writer([](std::string_view) {});
  return writer.add_file("x", path);
}

struct Origins {
  std::set<std::string> commits, changes;  ///< of the records: source commits, hashes of uncommitted changes
};

Origins origins_of(const std::string& out, const std::vector<std::string>& ids) {
  Origins origins;
  for (const std::string& id : ids) {
    const results::Provenance from = results::read_cell_record(results::record_path(out, id)).provenance;
    if (!from.commit.empty()) origins.commits.insert(from.commit);
    if (!from.dirty_hash.empty()) origins.changes.insert(from.dirty_hash);
  }
  return origins;
}

/// Files made for the archive: source trees of the records' commits.
struct Source {
  std::map<std::string, std::string> files;  ///< name -> content
  std::vector<std::string> remarks;
};

/// What git prints, without what it warns of, which would become part of a tree; nothing where it fails.
std::optional<std::string> git(const std::string& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"sh", "-c", "exec git \"$@\" 2>/dev/null", "git", "-C", folder};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return output_of(command, 60);
}

Source source_of(const Origins& origins, const std::string& folder) {
  Source source;
  for (const std::string& commit : origins.commits) {
    // `git archive` of a commit is the same bytes wherever it is made by the same git.
    const auto tar = git(folder, {"archive", "--format=tar", "--prefix=thinwire-" + commit.substr(0, 12) + "/", commit});
    if (tar)
      source.files["source/thinwire-" + commit.substr(0, 12) + ".tar"] = *tar;
    else
      source.remarks.push_back("no source of commit " + commit + ": " + folder +
                               " is no checkout that has it");
  }
  if (origins.commits.empty()) source.remarks.push_back("no source: the records name no commit");
  // The build takes this very hash of this very text (cmake/ThinwireBuildInfo.cmake), where no file is
  // untracked.
  const auto diff =
      origins.changes.empty()
          ? std::nullopt
          : git(folder, {"diff", "HEAD", "--", "CMakeLists.txt", "cmake", "core", "results", "kernels", "collectives", "models", "bench", "experiments"});
  for (const std::string& change : origins.changes)
    if (diff && sha256_hex(*diff) == change)
      source.files["source/changes-" + change.substr(0, 12) + ".diff"] = *diff;
    else
      source.remarks.push_back("records come from code with uncommitted changes (SHA-256 " + change +
                               ") that are no longer at hand");
  return source;
}

std::string inventory_line(const std::string& hash, const std::string& name) {
  return hash + "  " + name + "\n";
}

}  // namespace

ArchiveReport write_archive(const std::string& path, const ArchiveOptions& options) {
  if (!fs::is_directory(options.out))
    throw EnvironmentError(options.out + ": no such folder; name the result folder with --out");
  const Study study = read_study(options.study.empty() ? find_saved_study(options.out) : options.study);
  ArchiveReport report;
  report.path = path;

  Json json;
  json["archive_version"] = archive_version;
  json["thinwire_version"] = THINWIRE_VERSION;
  json["study"] = "study/" + study.name + ".study.toml";
  std::vector<std::string> cells, missing;
  std::set<std::string> planned;
  for (const PlannedCell& cell : expand(study)) {
    planned.insert(cell.cell_id);
    const results::RecordCheck check = results::check_record(results::record_path(options.out, cell.cell_id));
    if (check.state == results::RecordState::damaged || check.state == results::RecordState::other_schema)
      throw CorruptData(results::record_path(options.out, cell.cell_id) + ": " + check.reason +
                        "; `sweep run` makes it again");
    (check.state == results::RecordState::finished ? cells : missing).push_back(cell.cell_id);
  }
  std::sort(cells.begin(), cells.end());
  std::sort(missing.begin(), missing.end());
  report.cells = cells.size();
  report.missing = missing.size();
  if (!missing.empty())
    report.remarks.push_back(std::to_string(missing.size()) + " cells of the study have no record yet");
  const Origins origins = origins_of(options.out, cells);
  json["commits"] = origins.commits;
  json["changes"] = origins.changes;
  json["cells"] = cells;
  json["missing"] = missing;

  std::vector<std::string> kept;
  json["left_out"] = Json::array();
  for (const std::string& file : files_below(options.out)) {
    const std::string id = file.starts_with("cells/") ? fs::path(file).stem().string() : "";
    if (is_kept(file, options.with_capture) && (id.empty() || planned.contains(id))) {
      kept.push_back(file);
      continue;
    }
    if (file == ".lock" || file.ends_with(".tmp") || file.starts_with("leases/")) continue;
    Json left = {{"path", file}, {"bytes", fs::file_size(options.out + "/" + file)}};
    if (file == "capture.h5") {
      left["sha256"] = hash_of_file(options.out + "/" + file);
      report.remarks.push_back("not in it: capture.h5 (" +
                               std::to_string(fs::file_size(options.out + "/" + file) >> 20) +
                               " MiB; its hash is; --with-capture takes it along)");
    }
    json["left_out"].push_back(std::move(left));
  }
  if (std::find(kept.begin(), kept.end(), "machine.toml") == kept.end() &&
      !fs::exists(options.out + "/slurm"))
    report.remarks.push_back("no machine profile: the built-in `local` was used");
  const Source source = source_of(origins, options.source.empty() ? THINWIRE_SOURCE_FOLDER : options.source);
  report.remarks.insert(report.remarks.end(), source.remarks.begin(), source.remarks.end());
  json["remarks"] = report.remarks;

  const std::string temporary = path + ".tmp";
  try {
    results::make_folder(fs::absolute(path).parent_path().string());
    compress_to(temporary, [&](const results::ByteSink& sink) {
      results::TarWriter tar(sink);
      std::string inventory;
      const auto text = [&](const std::string& name, const std::string& content) {
        tar.add_text(name, content);
        inventory += inventory_line(sha256_hex(content), name);
      };
      text("archive.json", json.dump(1) + "\n");
      for (const std::string& file : kept)
        inventory += inventory_line(tar.add_file("out/" + file, options.out + "/" + file), "out/" + file);
      for (const auto& [name, content] : source.files) text(name, content);
      text("study/" + study.name + ".study.toml", to_toml(study));
      report.files = kept.size() + source.files.size() + 2;
      tar.add_text("INVENTORY.sha256", inventory);  // last: it holds the hashes of what was really written
      tar.finish();
    });
    seal_archive(temporary);
    if (const CheckReport check = check_archive(temporary); !check.problems.empty())
      throw RuntimeFailure(path + ": does not read back as it was written (" + check.problems.front() +
                           "); is something running in " + options.out + "?");
    results::publish_file(path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  report.bytes = fs::file_size(path);
  report.sha256 = hash_of_file(path);
  return report;
}

}  // namespace thinwire::sweep
