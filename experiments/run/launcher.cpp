#include "experiments/run/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/joined.h"
#include "results/files/files.h"
#include "results/cell_command.h"
#include "results/link_kind.h"
#include "results/provenance.h"
#include "results/record.h"
#include "thinwire_version.h"

namespace thinwire::sweep {

namespace fs = std::filesystem;

std::string default_bin() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw EnvironmentError(
        "/proc/self/exe cannot be read, so the programs' folder is unknown; name it with --bin");
  return self.parent_path().string();
}

std::string default_lab(const std::string& bin) {
  for (const std::string& path : {bin + "/../share/thinwire/lab/launch.sh",
                                  std::string(THINWIRE_SOURCE_FOLDER) + "/experiments/lab/launch.sh"})
    if (std::error_code unreadable; fs::exists(path, unreadable)) return path;
  return bin + "/../share/thinwire/lab/launch.sh";
}

void make_out(const RunPaths& paths) {
  for (const char* folder : {"", "/cells", "/journal", "/launches", "/logs"})
    results::make_folder(paths.out + folder);
  if (access(paths.out.c_str(), W_OK) != 0 || access((paths.out + "/cells").c_str(), W_OK) != 0)
    throw EnvironmentError(paths.out + ": no right to write in this folder; choose another one with --out");
}

std::string next_launch_id(const RunPaths& paths) {
  int last = 0;
  for (const auto& entry : fs::directory_iterator(paths.out + "/launches"))
    last = std::max(last, std::atoi(entry.path().stem().c_str()));
  for (;;) {
    char text[16];
    std::snprintf(text, sizeof text, "%04d", ++last);
    const std::string path = paths.launch_file(text);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) {
      close(file);
      return text;
    }
    if (errno != EEXIST)
      throw RuntimeFailure(path + ": cannot be written: " + std::strerror(errno) + "; free some space, or mend the folder's rights");
  }
}

void write_launch_file(const RunPaths& paths, const std::string& id, const Launch& launch,
                       std::span<const PlannedCell> cells) {
  nlohmann::ordered_json json;
  json["schema"] = 1;
  json["launch"] = id;
  json["out"] = paths.out;
  json["program"] = launch.program;
  json["ranks"] = launch.ranks;
  json["link"] = launch.link;
  json["machine"] = paths.machine->name;
  json["resume"] = paths.resume();
  json["cells"] = nlohmann::ordered_json::array();
  for (const PlannedCell& cell : cells)
    json["cells"].push_back(
        {{"cell_id", cell.cell_id},
         {"parameters", nlohmann::ordered_json::parse(cell.parameters.canonical_json())}});
  results::write_file_atomically(paths.launch_file(id), json.dump(1) + "\n");
}

namespace {

std::vector<std::string> launcher_words(const Machine& machine, const MachineLink& link, const Shape& shape) {
  std::vector<std::string> words;
  const std::string ranks = std::to_string(shape.ranks);
  if (machine.launcher == Machine::Launcher::srun) {
    words = {"srun", "--ntasks=" + ranks, "--nodes=" + std::to_string(shape.nodes),
             "--cpus-per-task=" + std::to_string(shape.cores_per_rank)};
    if (shape.nodes > 1) words.push_back("--ntasks-per-node=" + std::to_string(shape.ranks_per_node));
    words.insert(words.end(), machine.launcher_options.begin(), machine.launcher_options.end());
    words.insert(words.end(), link.options.begin(), link.options.end());
    return words;
  }
  words = {"mpirun"};
  words.insert(words.end(), machine.launcher_options.begin(), machine.launcher_options.end());
  words.insert(words.end(), link.options.begin(), link.options.end());
  if (shape.nodes > 1) words.insert(words.end(), {"--map-by", "ppr:" + std::to_string(shape.ranks_per_node) + ":node"});
  words.insert(words.end(), {"-n", ranks});
  return words;
}

bool in_lab(const std::string& link) {
  const results::LinkKind* kind = results::kind_of_link(link);
  return kind != nullptr && kind->in_lab;
}

}  // namespace

Command command_for(const RunPaths& paths, const std::string& id, const Launch& launch) {
  const Machine& machine = *paths.machine;
  const Shape shape = shape_of(machine, launch.link, launch.ranks, launch.omp_threads);
  const MachineLink& link = *machine.link_of(launch.link);
  Command command;
  if (in_lab(launch.link))
    command.arguments = {"bash", paths.lab, "--link", launch.link, "--ranks", std::to_string(launch.ranks), "--"};
  else
    command.arguments = launcher_words(machine, link, shape);
  if (!machine.gpu_of_local_rank.empty()) {
    const std::string gpus = joined(machine.gpu_of_local_rank, ",", [](int gpu) { return std::to_string(gpu); });
    command.arguments.insert(command.arguments.end(), {paths.bin + "/sweep", "rank", "--gpus", gpus});
  }
  for (const std::string& argument :
       {paths.bin + "/" + launch.program, std::string("--cells"), paths.launch_file(id)})
    command.arguments.push_back(argument);
  const int cores = machine.cores_per_node > 0 ? machine.cores_per_node
                                               : std::max<int>(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  const int threads = launch.omp_threads > 0 ? launch.omp_threads : launch.ranks > 1 ? 1 : cores;
  command.environment = {{"OMPI_MCA_mpi_yield_when_idle", "1"},
                         {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                         {"OMP_NUM_THREADS", std::to_string(threads)},
                         {"HDF5_USE_FILE_LOCKING", "FALSE"}};
  for (const auto* added : {&machine.environment, &link.environment})
    for (const auto& [name, value] : *added) command.environment[name] = value;
  command.folder = paths.out;  // relative paths among the parameters (capture.h5) are meant from there
  command.log = paths.log(id);
  return command;
}

std::string reason_from_log(const std::string& path) {
  std::ifstream file(path);
  std::string line, last, noted;
  while (std::getline(file, line)) {
    if (const std::size_t error = line.find(" error "); error != std::string::npos && error < 16)
      return line.substr(error + 7);
    if (noted.empty() && line.find("exited on signal") != std::string::npos) noted = line;
    if (line.find_first_not_of(" -\t") != std::string::npos) last = line;
  }
  return noted.empty() ? last : noted;
}

std::string skip_reason_from_log(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SKIPPED: ")) return line.substr(9);
  return "";
}

void write_verdict(const RunPaths& paths, const std::string& id, const PlannedCell& cell,
                   results::Status status, const std::string& reason) {
  results::CellRow row;
  for (const auto& column : results::cell_columns()) {
    if (!cell.parameters.has(column.name)) continue;
    const std::string value = cell.parameters.text(column.name);
    std::visit(
        [&]<typename T>(T results::CellRow::*member) {
          if constexpr (std::is_same_v<T, std::string>) row.*member = value;
          // A value that is no whole number may be the very reason of the failure.
          else if constexpr (std::is_same_v<T, std::int64_t>)
            std::from_chars(value.data(), value.data() + value.size(), row.*member);
        },
        column.member);
  }
  row.cell_id = cell.cell_id;
  row.program = cell.program;
  row.link = cell.link;
  row.ranks = cell.ranks;
  row.status = results::name_of(status);
  row.reason = reason;
  row.repetitions = 0;  // a parameter of this name says what was asked for, not what was done
  row.repro = results::command_of_cell(cell.program, cell.ranks, cell.link, cell.parameters);

  results::CellRecord record;
  record.cell_id = cell.cell_id;
  record.program = cell.program;
  record.ranks = cell.ranks;
  record.link = cell.link;
  record.parameters = cell.parameters;
  results::ProvenanceInput input;
  input.launch = id + "/sweep";  // beside the row of the launch itself, which other cells may have written
  input.program = "sweep";
  input.command = {"sweep"};
  record.provenance = results::collect_provenance(input);
  record.provenance.binary_hash = results::hash_of_binary(paths.bin + "/" + cell.program);  // the verdict is of that build, whichever runner wrote it
  record.provenance.finished = record.provenance.started;
  row.launch = record.provenance.launch;
  record.rows.push_back(std::move(row));
  results::write_cell_record(results::record_path(paths.out, cell.cell_id), record);
}

void check_programs(const RunPaths& paths, std::span<const PlannedCell> cells, bool must_exist) {
  std::map<std::string, std::vector<std::string>> options;
  std::set<std::string> checked;
  for (const PlannedCell& cell : cells) {
    if (!options.contains(cell.program)) {
      const std::string path = paths.bin + "/" + cell.program;
      if (access(path.c_str(), X_OK) != 0) {
        if (must_exist)
          throw EnvironmentError(path + ": no such program; build it (ninja " + cell.program +
                                 ") or name its folder with --bin");
        options[cell.program] = {};
        continue;
      }
      const std::string help = output_of({path, "--help"}, 20).value_or("");
      std::vector<std::string>& names = options[cell.program];
      for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at + 2)) {
        std::size_t end =
            std::min(help.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", at + 2),
                     help.size());
        while (end > at + 2 && help[end - 1] == '.') --end;  // names may hold dots, sentences end with one
        if (end > at + 2) names.push_back(help.substr(at + 2, end - at - 2));
      }
    }
    const std::vector<std::string>& names = options[cell.program];
    if (names.empty()) continue;
    for (const auto& [name, value] : cell.parameters.values()) {
      if (!checked.insert(cell.program + " " + name).second ||
          std::find(names.begin(), names.end(), name) != names.end())
        continue;
      throw UsageError("grid `" + cell.grid + "`: " + cell.program + " has no parameter `" + name +
                       "`; did you mean `" + nearest_name(name, names.data(), names.data() + names.size()) +
                       "`? See " + cell.program + " --help");
    }
  }
}

}  // namespace thinwire::sweep
