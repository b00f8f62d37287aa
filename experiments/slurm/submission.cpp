#include "experiments/slurm/submission.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "results/files/files.h"
#include "results/record.h"

namespace thinwire::sweep {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr int schema = 1;

std::string token() {
  std::random_device random;  // names must differ between users and clusters that share a file system
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random()));
  return text;
}

template <typename Read>
auto reading(const std::string& path, Read read) {
  const std::string text = results::read_file(path);
  try {
    return read(json::parse(text));
  } catch (const json::exception& error) {
    throw CorruptData(path + ": " + error.what() + "; cancel what it submitted (scancel) and remove its folder");
  }
}

ordered_json to_json(const PlannedCell& c) {
  return {{"cell_id", c.cell_id}, {"grid", c.grid}, {"program", c.program}, {"link", c.link}, {"ranks", c.ranks},
          {"omp_threads", c.omp_threads}, {"timeout", c.timeout}, {"minutes", c.minutes}, {"memory_gib", c.memory_gib},
          {"tags", c.tags}, {"parameters", ordered_json::parse(c.parameters.canonical_json())}};
}

PlannedCell cell_from(const json& j, const std::string& path) {
  PlannedCell c;
  c.cell_id = j.at("cell_id");
  c.grid = j.at("grid");
  c.program = j.at("program");
  c.link = j.at("link");
  c.ranks = j.at("ranks");
  c.omp_threads = j.at("omp_threads");
  c.timeout = j.at("timeout");
  c.minutes = j.at("minutes");
  c.memory_gib = j.at("memory_gib");
  c.tags = j.at("tags").get<std::vector<std::string>>();
  c.parameters = Parameters::from_json(j.at("parameters").dump(), path);
  return c;
}

ordered_json to_json(const Shape& s) {
  return {{"nodes", s.nodes}, {"ranks", s.ranks}, {"ranks_per_node", s.ranks_per_node},
          {"cores_per_rank", s.cores_per_rank}, {"gpus_per_node", s.gpus_per_node}};
}

std::vector<SubmittedArray> arrays_from(const json& j) {
  std::vector<SubmittedArray> arrays;
  for (const json& a : j.at("arrays")) arrays.push_back({a.at("name"), a.at("tasks"), a.at("job"), a.at("refused")});
  return arrays;
}

}  // namespace

std::vector<std::string> submission_folders(const std::string& out) {
  std::vector<std::string> folders;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(out + "/slurm", unreadable))
    if (entry.is_directory()) folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

Submission draft(const RunPaths& paths, std::span<const PlannedCell> cells, const Estimates& estimates) {
  Submission s;
  s.paths = paths;
  s.folder = paths.out + "/slurm/NNNN";
  for (const PlannedCell& cell : cells) s.cells.push_back({cell, record_time(paths.out, cell.cell_id)});
  s.arrays = pack(cells, *paths.machine, estimates);
  for (std::size_t k = 0; k < s.arrays.size(); ++k)
    s.submitted.push_back({"thinwire-XXXXXXXX-" + std::to_string(k), static_cast<int>(s.arrays[k].tasks.size()), "", ""});
  return s;
}

void open_submission(Submission& s) {
  const std::string parent = s.paths.out + "/slurm";
  results::make_folder(parent);
  int last = 0;
  for (const std::string& folder : submission_folders(s.paths.out))
    last = std::max(last, std::atoi(fs::path(folder).filename().c_str()));
  do {
    char text[16];
    std::snprintf(text, sizeof text, "%04d", ++last);
    s.id = text;
    s.folder = parent + "/" + s.id;
    if (mkdir(s.folder.c_str(), 0777) != 0 && errno != EEXIST)
      throw EnvironmentError(s.folder + ": cannot be made: " + std::strerror(errno) + "; choose a folder that you may write to");
  } while (errno == EEXIST && !fs::is_empty(s.folder));
  s.created = std::to_string(std::time(nullptr));
  const std::string name = "thinwire-" + token();
  s.submitted.clear();
  for (std::size_t k = 0; k < s.arrays.size(); ++k)
    s.submitted.push_back({name + "-" + std::to_string(k), static_cast<int>(s.arrays[k].tasks.size()), "", ""});
}

void write_tasks(const Submission& s) {
  ordered_json j;
  j["schema"] = schema;
  j["id"] = s.id;
  j["out"] = s.paths.out;
  j["bin"] = s.paths.bin;
  j["lab"] = s.paths.lab;
  j["retries"] = s.retries;
  j["max_failures"] = s.max_failures;
  j["machine"] = {{"name", s.paths.machine->name}, {"path", s.paths.machine->path}, {"text", s.paths.machine->text}};
  j["arrays"] = ordered_json::array();
  for (const PlannedArray& array : s.arrays)
    j["arrays"].push_back({{"shape", to_json(array.shape)}, {"memory_gib", array.memory_gib}, {"tasks", array.tasks},
                           {"expected_seconds", array.seconds}});
  j["cells"] = ordered_json::array();
  for (const SubmittedCell& cell : s.cells) {
    ordered_json c = to_json(cell.cell);
    c["before"] = cell.before;
    j["cells"].push_back(std::move(c));
  }
  results::write_file_atomically(s.folder + "/tasks.json", j.dump(1) + "\n");
}

void write_submitted(const Submission& s) {
  ordered_json j;
  j["schema"] = schema;
  j["id"] = s.id;
  j["created"] = std::stoll(s.created);
  j["machine"] = s.paths.machine->name;
  j["arrays"] = ordered_json::array();
  for (const SubmittedArray& a : s.submitted)
    j["arrays"].push_back({{"name", a.name}, {"tasks", a.tasks}, {"job", a.job}, {"refused", a.refused}});
  results::write_file_atomically(s.folder + "/submission.json", j.dump(1) + "\n");
}

Submission read_submission(const std::string& folder) {
  const std::string path = folder + "/tasks.json";
  Submission s = reading(path, [&](const json& j) {
    if (j.at("schema") != schema) throw CorruptData(path + " was written by another version of thinwire; submit again");
    Submission found;
    found.id = j.at("id");
    found.folder = folder;
    found.paths.out = j.at("out");
    found.paths.bin = j.at("bin");
    found.paths.lab = j.at("lab");
    found.retries = j.at("retries");
    found.max_failures = j.at("max_failures");
    const std::string text = j.at("machine").at("text"), machine_path = j.at("machine").at("path");
    if (!text.empty()) found.paths.machine = std::make_shared<Machine>(machine_from_text(text, machine_path));
    for (const json& a : j.at("arrays")) {
      const json& shape = a.at("shape");
      found.arrays.push_back({{shape.at("nodes"), shape.at("ranks"), shape.at("ranks_per_node"), shape.at("cores_per_rank"),
                               shape.at("gpus_per_node")},
                              a.at("memory_gib"),
                              a.at("tasks").get<std::vector<std::vector<std::size_t>>>(),
                              a.at("expected_seconds").get<std::vector<double>>()});
    }
    for (const json& c : j.at("cells")) found.cells.push_back({cell_from(c, path), c.at("before")});
    for (const PlannedArray& array : found.arrays)
      for (const auto& task : array.tasks)
        for (const std::size_t cell : task)
          if (cell >= found.cells.size()) throw CorruptData(path + ": a task names a cell that is not there; submit again");
    return found;
  });
  reading(folder + "/submission.json", [&](const json& j) {
    s.created = std::to_string(j.at("created").get<long long>());
    s.submitted = arrays_from(j);
    return 0;
  });
  return s;
}

std::optional<SubmissionSummary> read_summary(const std::string& folder) {
  if (!fs::exists(folder + "/submission.json") || !fs::exists(folder + "/tasks.json")) return std::nullopt;
  SubmissionSummary summary;
  summary.folder = folder;
  reading(folder + "/submission.json", [&](const json& j) {
    summary.id = j.at("id");
    summary.machine = j.at("machine");
    summary.created = j.at("created");
    summary.arrays = arrays_from(j);
    return 0;
  });
  reading(folder + "/tasks.json", [&](const json& j) {
    const json& cells = j.at("cells");
    for (const json& array : j.at("arrays")) {
      auto& tasks = summary.cells.emplace_back();
      for (const json& task : array.at("tasks")) {
        auto& ids = tasks.emplace_back();
        for (const json& cell : task) ids.push_back(cells.at(cell.get<std::size_t>()).at("cell_id"));
      }
    }
    return 0;
  });
  return summary;
}

std::int64_t record_time(const std::string& out, const std::string& cell_id) {
  struct stat info {};
  if (stat(results::record_path(out, cell_id).c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace thinwire::sweep
