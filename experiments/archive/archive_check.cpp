// Reading archives with distrust, and checking what they and result folders hold.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/process/log.h"
#include "core/sha256.h"
#include "experiments/archive/archive.h"
#include "experiments/archive/archive_files.h"
#include "experiments/archive/archive_seal.h"
#include "experiments/study/expand.h"
#include "experiments/archive/zstd.h"
#include "results/files/files.h"
#include "results/record.h"
#include "results/files/tar.h"

namespace thinwire::sweep {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using results::complain_of_damage;

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink())
      files.push_back(entry.path().lexically_relative(folder).generic_string());
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

struct Removed {
  explicit Removed(std::string p) : path(std::move(p)) {}
  ~Removed() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;
  std::string path;
};

}  // namespace

namespace {

std::map<std::string, std::string> read_inventory(const std::string& text, const std::string& where) {
  std::map<std::string, std::string> hashes;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos || end < from + 67 || text.substr(from + 64, 2) != "  " ||
        !hashes.try_emplace(text.substr(from + 66, end - from - 66), text.substr(from, 64)).second)
      complain_of_damage(where, "its inventory is no list of hashes and names");
    from = end + 1;
  }
  return hashes;
}

}  // namespace

void unpack_archive(const std::string& path, const std::string& folder,
                    const std::function<bool(const std::string&)>& wanted) {
  if (fs::exists(folder))
    throw UsageError(folder + ": is there already; an archive is unpacked into a new folder");
  check_archive_seal(path);  // first: one complaint for every cut and every changed byte, whatever zstd and tar make of it
  results::make_folder(folder);
  std::map<std::string, std::string> found;
  std::string inventory, name;
  bool has_inventory = false;
  Sha256 hash;
  std::FILE* file = nullptr;
  const auto close = [&] {
    if (!name.empty()) found[name] = hash.hex();
    hash = Sha256();
    name.clear();
    if (file != nullptr && std::fclose(std::exchange(file, nullptr)) != 0)
      throw RuntimeFailure(folder + ": cannot be written; is the disk full?");
  };
  try {
    decompress(path, [&](const results::ByteSource& source) {
      results::read_tar(source, path, [&](const results::TarMember& member) -> results::ByteSink {
        close();
        if (member.name == "INVENTORY.sha256") {
          has_inventory = true;
          if (member.bytes > (std::uint64_t{1} << 30)) complain_of_damage(path, "its inventory is too long");
          return [&](std::string_view bytes) { inventory += bytes; };
        }
        name = member.name;
        if (!wanted || wanted(member.name)) {
          const std::string target = folder + "/" + member.name;
          results::make_folder(fs::path(target).parent_path().string());
          file = std::fopen(target.c_str(), "wbx");
          if (file == nullptr) throw RuntimeFailure(target + ": cannot be written: " + std::strerror(errno));
        }
        return [&](std::string_view bytes) {
          hash.update(bytes);
          if (file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
            throw RuntimeFailure(folder + ": cannot be written; is the disk full?");
        };
      });
    });
    close();
    if (!has_inventory)
      complain_of_damage(path, "it has no inventory (it was not written by `sweep archive`, or not to its end)");
    const std::map<std::string, std::string> listed = read_inventory(inventory, path);
    for (const auto& [member, its_hash] : found) {
      const auto entry = listed.find(member);
      if (entry == listed.end())
        complain_of_damage(path, "`" + member + "` is not in its inventory (somebody added it)");
      if (entry->second != its_hash)
        complain_of_damage(path, "`" + member + "` differs from its inventory");
    }
    for (const auto& [member, its_hash] : listed)
      if (!found.contains(member))
        complain_of_damage(path, "`" + member + "` is in its inventory and not in the archive");
  } catch (...) {
    if (file != nullptr) std::fclose(file);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
}

namespace {

std::string scratch_folder() {
  std::string pattern = (fs::temp_directory_path() / "thinwire-archive-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw EnvironmentError(pattern + ": cannot be made; set TMPDIR to a folder that you may write to");
  return pattern;
}

void check_records(const std::string& out, CheckReport& report, std::set<std::string>& finished) {
  std::error_code none;
  if (!fs::is_directory(out + "/cells", none)) return;
  for (const std::string& file : files_below(out + "/cells")) {
    const std::string path = out + "/cells/" + file, id = fs::path(file).stem().string();
    if (!file.ends_with(".h5")) continue;
    ++report.records;
    try {
      const results::CellRecord record = results::read_cell_record(path);
      if (record.cell_id != id ||
          results::cell_id(record.program, record.ranks, record.link, record.parameters) != id)
        throw CorruptData(path + ": its content belongs to another cell (" + record.cell_id + ")");
      finished.insert(id);
    } catch (const CorruptData& e) {
      report.problems.emplace_back(e.what());
    }
  }
}

void check_collected(const std::string& out, CheckReport& report) {
  if (!fs::exists(out + "/collected.h5")) return;
  try {
    const h5::File file = h5::File::open_read(out + "/collected.h5");
    results::require_schema(file);
    for (const std::string& name : file.names())
      if (file.info(name).is_table) (void)file.read_table(name);
  } catch (const CorruptData& e) {
    report.problems.emplace_back(e.what());
  }
}

void check_study(const std::string& study, const std::set<std::string>& finished, CheckReport& report) {
  for (const PlannedCell& cell : expand(read_study(study))) {
    ++report.planned;
    report.missing += !finished.contains(cell.cell_id);
  }
}

}  // namespace

CheckReport check_result_folder(const std::string& out) {
  if (!fs::is_directory(out)) throw EnvironmentError(out + ": no such folder");
  CheckReport report;
  report.files = files_below(out).size();
  std::set<std::string> finished;
  check_records(out, report, finished);
  check_collected(out, report);
  for (const auto& entry : fs::directory_iterator(out))
    if (entry.path().string().ends_with(".study.toml")) check_study(entry.path().string(), finished, report);
  return report;
}

CheckReport check_archive(const std::string& path) {
  const Removed scratch(scratch_folder());
  const std::string folder = scratch.path + "/archive";
  unpack_archive(path, folder);
  CheckReport report;
  report.files = files_below(folder).size();
  const Json json = Json::parse(results::read_file(folder + "/archive.json"), nullptr, false);
  try {
    if (json.at("archive_version") != archive_version)
      throw UsageError(path + ": archive version " + json.at("archive_version").dump() +
                       " where this program reads version " + std::to_string(archive_version) +
                       "; use the thinwire that wrote it");
    std::set<std::string> finished, planned;
    check_records(folder + "/out", report, finished);
    check_collected(folder + "/out", report);
    const std::string study = json.at("study");
    if (!results::is_safe_member_name(study))
      complain_of_damage(path, "its archive.json names a study outside of it");
    for (const PlannedCell& cell : expand(read_study(folder + "/" + study))) planned.insert(cell.cell_id);
    report.planned = planned.size();
    const std::set<std::string> cells = json.at("cells"), missing = json.at("missing");
    report.missing = missing.size();
    std::set<std::string> both = cells;
    both.insert(missing.begin(), missing.end());
    if (both != planned)
      report.problems.push_back(path + ": its study expands to other cells than were recorded (" +
                                std::to_string(planned.size()) + " and " + std::to_string(both.size()) + ")");
    if (cells != finished)
      report.problems.push_back(path + ": holds whole records of " + std::to_string(finished.size()) +
                                " cells where it lists " + std::to_string(cells.size()));
  } catch (const nlohmann::json::exception& e) {
    complain_of_damage(path, std::string("its archive.json: ") + e.what());
  }
  return report;
}

std::string study_from_archive(const std::string& archive, const std::string& out) {
  results::make_folder(out);
  const Removed scratch(out + "/from-archive.tmp");  // beside its place: a capture is moved, not copied
  fs::remove_all(scratch.path);
  unpack_archive(archive, scratch.path, [](const std::string& name) {
    return name.starts_with("study/") || name == "archive.json" || name == "out/machine.toml" ||
           name == "out/capture.h5";
  });
  const std::vector<std::string> studies = files_below(scratch.path + "/study");
  if (studies.size() != 1)
    complain_of_damage(archive, "it holds " + std::to_string(studies.size()) + " studies where there is one");
  const std::string from = scratch.path + "/study/" + studies.front(), target = out + "/" + studies.front();
  if (fs::exists(out + "/cells") && !fs::exists(target))
    throw UsageError(out + " holds the results of another study; name a new folder with --out");
  // A note on top may differ; the cells must not.
  if (fs::exists(target) && to_toml(read_study(target)) != to_toml(read_study(from)))
    throw UsageError(target + " is another study of this name; name a new folder with --out");
  // The profile is for reference: what is measured now is measured on the machine that is named now.
  for (const auto& [from_name, to_name] :
       {std::pair{"machine.toml", "archived_machine.toml"}, {"capture.h5", "capture.h5"}})
    if (const std::string there = scratch.path + "/out/" + from_name;
        fs::exists(there) && !fs::exists(out + "/" + to_name))
      fs::rename(there, out + "/" + to_name);
  const Json json = Json::parse(results::read_file(scratch.path + "/archive.json"), nullptr, false);
  if (json.is_object() && !fs::exists(out + "/capture.h5"))
    for (const Json& left : json.value("left_out", Json::array()))
      if (left.value("path", "") == "capture.h5")
        log_warning("the archived run read a capture.h5 (SHA-256 " + left.value("sha256", "?") +
                    ") that the archive does not hold; without it in " + out +
                    " cells on captured traffic fail: capture_traffic makes one");
  if (!fs::exists(target)) results::write_file_atomically(target, results::read_file(from));
  return target;
}

}  // namespace thinwire::sweep
