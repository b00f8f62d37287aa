// Files in TOML: studies, courses of the race, machine profiles, links of a machine, training configurations, and the three files of a predicted step.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "experiments/race/course.h"
#include "experiments/study/expand.h"
#include "experiments/study/machine.h"
#include "experiments/study/study.h"
#include "models/cost_model/machine_file.h"
#include "models/cost_model/step_files.h"
#include "models/training/config/train_options.h"
#include "tests/fuzz/target.h"
#include "tests/support/source_folder.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

/// Files of the source tree that end in .toml, and the smallest text that is accepted.
std::vector<std::string> shipped(const std::string& folder, const std::vector<std::string>& first) {
  std::vector<std::string> all = first;
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(thinwire::testing::source_folder() + "/" + folder, none))
    if (entry.path().extension() == ".toml" && entry.file_size() < 6000) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) all.push_back(thinwire::testing::TemporaryFolder::read(path));
  return all;
}

void read_a_study(std::string_view input) {
  const sweep::Study study = sweep::read_study(as_file("study/study.toml", input));
  for (const sweep::Grid& grid : study.grids) {
    double points = 1;
    for (const sweep::Axis& axis : grid.axes) points *= static_cast<double>(axis.points.size());
    if (points > 1000 && points < 1e6) return;  // may be a study of hours, and takes seconds to expand
  }
  const std::vector<sweep::PlannedCell> cells = sweep::expand(study);
  const sweep::Study again = sweep::read_study(as_file("study/again.toml", sweep::to_toml(study)));
  const std::vector<sweep::PlannedCell> the_same = sweep::expand(again);
  if (the_same.size() != cells.size()) throw Finding("to_toml gives another number of cells: " + std::to_string(the_same.size()) + " for " + std::to_string(cells.size()));
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i].cell_id != the_same[i].cell_id) throw Finding("to_toml gives another cell " + std::to_string(i));
}

std::vector<std::string> study_seeds() {
  return {
      "[study]\nname = \"s\"\nprogram = \"p\"\n[axes]\na = [1, 2]\n",
      "[study]\nname = \"s\"\n[parameters]\nx = 1.5\nt = \"\\u00e9 'q'\"\n[sets.two]\nb = [1, 2]\nc = [\"k\", \"l\"]\n[[grid]]\nprogram = \"p\"\nranks = \"tp*pp\"\nlink = [\"shm\", \"netns:1gbit\"]\n"
      "seeds = [1, 2]\ntags = [\"a\"]\nminutes = 2\n[grid.parameters]\ntp = 2\npp = 1\n[[grid.zip]]\nuse = \"two\"\n[[grid.exclude]]\nb = 2\nlink = \"shm\"\n[[grid.override]]\nwhen = {b = 1}\n"
      "set = {x = true}\n",
      "[study]\nname = \"s\"\nprogram = \"p\"\nrepeat = {seeds = 3, first = 4}\nranks = \"2*2\"\nomp_threads = 2\ntimeout = 1e3\nmemory_gib = 0.5\nrepetitions = 4\n"};
}
const bool studies = register_target({"study", "study files of sweep, and the cells that they name", 9'500, read_a_study, study_seeds});

void read_a_course(std::string_view input) {
  race::Course course = race::read_course(as_file("course/course.toml", input));
  course.registered_text();
  for (const race::Entrant& entrant : course.entrants) course.loss.with(entrant).canonical_json();
}
std::vector<std::string> course_seeds() {
  return shipped(
      "experiments/race/courses",
      {"[race]\nname = \"c\"\nhorizon = 8\nvalidate_every = 2\nrates = [1e-3, 2e-3]\ntuning_seed = 1\nseeds = [2, 3]\nlinks = [\"shm\"]\n[loss]\nranks = 2\nparameters = {hidden = 8}\n[time]\n"
       "[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"topk\"\nsettings = {\"compress.dp_gradient\" = \"topk\"}\nrate = 1e-3\nhorizons = 2\nseeds = [9]\n"});
}
const bool courses = register_target({"course", "courses of the race", 6'500, read_a_course, course_seeds});

void read_profile(std::string_view input) {
  const sweep::Machine machine = sweep::machine_from_text(std::string(input), "profile.toml");
  for (const char* link : {"shm", "fabric", "netns:1gbit"}) try {
      const sweep::Shape shape = sweep::shape_of(machine, link, 12, 0);
      if (shape.nodes < 1 || shape.ranks_per_node < 1) throw Finding("a shape without nodes or ranks");
    } catch (const UsageError&) {
    }
}
const bool profiles =
    register_target({"machine_profile", "profiles of --machine", 140'000, read_profile, [] {
                       return shipped("experiments/machines", {"name = \"m\"\n[node]\nranks = 2\ngpus = 2\ngpu_of_local_rank = [0, 1]\n[[link]]\nname = \"fabric\"\nenvironment = {A = \"b\"}\n"});
                     }});

void read_links(std::string_view input) {
  const MachineFile file = MachineFile::read(as_file("links.toml", input));
  const MachineFile again = MachineFile::read(as_file("links-again.toml", file.to_toml()));
  if (again.links.size() != file.links.size()) throw Finding("to_toml loses links");
  for (const auto& [name, link] : file.links) {
    const auto found = again.links.find(name);
    if (found == again.links.end() || found->second.latency_us != link.latency_us || found->second.gbps != link.gbps) throw Finding("to_toml changes the link '" + name + "'");
  }
}
const bool links = register_target({"machine_links", "what bench_collective --fit writes of a machine", 9'100, read_links,
                                    [] { return std::vector<std::string>{"[link.\"netns:1gbit\"]\nlatency_us = 31.5\ngbps = 0.94\n[link.fabric]\nlatency_us = 0\n"}; }});

void read_training(std::string_view input) {
  const TrainConfig config = make_train_config(read_train_file(as_file("train.toml", input)));
  const TrainConfig again = make_train_config(read_train_file(as_file("train-again.toml", print_config(config))));
  if (print_config(again) != print_config(config)) throw Finding("print_config gives another configuration");
  config.check();
}
std::vector<std::string> training_seeds() {
  std::vector<std::string> all = {print_config(make_train_config({}))};
  all.push_back("[model]\nhidden = 64\nlayers = 4\nheads = 4\n[compress]\ntp_forward = \"topk:fraction=0.1\"\n[compress.dp_gradient]\ncodec = \"powersgd:rank=2+ef\"\nlayers = \"1-2\"\n");
  return all;
}
const bool trainings = register_target({"train_config", "--config of train_gpt", 5'300, read_training, training_seeds});

/// The first line says which of the three.
void read_step_file(std::string_view input) {
  const auto [kind, rest] = split_first_line(input);
  const std::string path = as_file("step.toml", rest);
  if (kind == "machine") {
    const ClusterMachine machine = read_cluster_machine(path);
    if (machine.ranks_per_node < 1) throw Finding("a node of " + std::to_string(machine.ranks_per_node) + " ranks");
  } else if (kind == "model") {
    read_model_shape(path);
  } else if (kind == "execution") {
    const Execution e = read_execution(path);
    if (e.mesh.ranks() < 1 || e.virtual_stages < 1) throw Finding("a mesh of " + std::to_string(e.mesh.ranks()) + " ranks");
  }
}
std::vector<std::string> step_seeds() {
  std::vector<std::string> all;
  const std::vector<std::pair<std::string, std::string>> files = {{"machine", "machine-16-nodes-of-8"}, {"model", "gpt-2.5b"}, {"execution", "cb-fe-sc"}};
  for (const auto& [kind, name] : files) {
    all.push_back(kind + "\n" + thinwire::testing::TemporaryFolder::read(thinwire::testing::source_folder() + "/experiments/predict/" + name + ".toml"));
  }
  return all;
}
const bool steps = register_target({"step_files", "machine, model and execution of predict_step", 11'000, read_step_file, step_seeds, true});

}  // namespace
}  // namespace thinwire::fuzz
