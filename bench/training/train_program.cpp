#include "bench/training/train_program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>

#include "bench/harness/options.h"
#include "bench/training/moved_start.h"
#include "bench/training/train_run.h"
#include "core/device/device.h"
#include "core/process/environment.h"
#include "core/error.h"
#include "kernels/nn/gemm/gemm.h"
#include "models/cost_model/memory_limit.h"
#include "models/training/parallel_trainer.h"
#include "models/training/config/train_options.h"

namespace thinwire::bench {
namespace {

const char* const plan_option = "plan";
const char* const timeline_option = "timeline";
const char *const keep_at_option = "keep-at", *const repetition_option = "repetition";

/// [section] of the file, for --help.
std::string section_of(const TrainOption& option) {
  return "[" + option.key.substr(0, option.key.find('.')) + "]";
}

/// Settings that follow from --token-slices or from the folder of --from where they are not given.
bool follows_others(const std::string& flag) {
  constexpr std::array flags = {"schedule", "hidden", "layers", "heads", "vocab", "vocabulary"};
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

/// MiB as text, in bytes.
std::int64_t memory_limit_of(const std::string& text) {
  double mib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
  if (error != std::errc() || end != text.data() + text.size() || !(mib > 0)) throw UsageError("--memory-limit " + text + " is no size in MiB above 0");
  return std::llround(mib * (1 << 20));
}

bool answers(const CommandLine& line) {
  return std::ranges::any_of(std::array{"print-config", "show-mesh", "show-memory"}, [&](const char* name) { return line.run_options.contains(name); });
}

/// --config, and the answers that need no training.
bool prepare(CommandLine& line) {
  const auto asked = [&](const char* name) { return line.run_options.contains(name); };
  if (!line.cells_file.empty()) {
    for (const auto& [name, value] : line.run_options)
      throw UsageError("--" + name +
                       " stands beside --cells; a launch file holds the parameters of its cells itself");
    return true;
  }
  if (asked("config")) {
    // The file's values become those of the cell: its identity does not depend on where they were written.
    for (const auto& [flag, value] : read_train_file(line.run_options.at("config")))
      line.values.try_emplace(flag, value);
  }
  CellParameters parameters;
  parameters.values = line.values;
  const TrainConfig config = train_config_of(parameters);
  config.check();
  (void)moved_start_of(parameters, config);
  (void)keep_at_of(parameters, config);
  if (asked("memory-limit")) check_memory_limit(config, memory_limit_of(line.run_options.at("memory-limit")));
  // What follows from other settings is part of the cell, like what was given: later every option has a value.
  for (const TrainOption& option : train_options())
    if (follows_others(option.flag) && option.get(config) != option.get(train_defaults())) line.values.try_emplace(option.flag, option.get(config));
  if (!answers(line)) {
    // What the command line alone decides is refused before a device or a library is taken for it.
    if (const std::optional<int> launched = Environment::launch_size()) require_ranks(config.mesh, *launched);
    if (const std::string reason = why_unavailable(config.device); !reason.empty()) throw EnvironmentError("--device cuda: " + reason);
    if (config.model.compute == nn::ComputeType::bf16 && config.device == DeviceKind::host)
      if (const std::string reason = nn::why_no_bf16_gemm(); !reason.empty()) throw UsageError("--products bf16 cannot be used on this processor: " + reason + ". Use --products f32.");
    return true;
  }
  if (asked("print-config")) std::fputs(print_config(config).c_str(), stdout);
  if (asked("show-mesh")) std::fputs(describe_mesh(config.mesh).c_str(), stdout);
  if (asked("show-memory")) std::fputs(describe_memory(config).c_str(), stdout);
  return false;
}

}  // namespace

BenchProgram train_program() {
  BenchProgram program;
  program.name = "train_gpt";
  program.summary =
      "trains a GPT or a BERT over a (tensor, pipeline, data) mesh of ranks, with a codec on any traffic class";
  const TrainConfig defaults = train_defaults();
  for (const TrainOption& option : train_options()) {
    std::string help = option.help + (option.unit.empty() ? "" : " [" + option.unit + "]");
    for (std::size_t i = 0; i < option.choices.size(); ++i)
      help += (i == 0 ? ": " : " | ") + option.choices[i];
    program.options.push_back({option.flag, option.get(defaults), help,
                               option.kind == TrainOption::Kind::truth, section_of(option)});
  }
  program.options.push_back(
      {plan_option, "", "name of what is compressed, for tables and figures; empty: the compressed classes",
       false, "[record]"});
  program.options.push_back({timeline_option, "false",
                             "keep the spans of all ranks in the last step in the record", true, "[record]"});
  program.options.push_back({moved_at_option, "0", "the first so many steps run under the settings of --moved-from, and the run goes on from their checkpoint; the record begins after them; 0: none [steps]",
                             false, "[checkpoint]"});
  program.options.push_back({moved_from_option, "", "settings of these steps that differ, \"flag=value flag=value\"; empty: the same", false, "[checkpoint]"});
  program.options.push_back({keep_at_option, "0", "in a sweep: after this step the cell keeps its state, and others begin with it by --resume kept:ID, its id; 0: never [steps]", false, "[checkpoint]"});
  program.options.push_back({repetition_option, "0", "number of this measurement where the same is measured several times; it changes nothing else", false, "[record]"});
  program.run_options = {
      {"config", "TOML file of parameters; flags override it"},
      {"print-config", "write the whole configuration as TOML and stop", false},
      {"show-mesh", "write the groups of ranks and stop", false},
      {"show-memory", "write the bytes of each rank in closed form and stop", false},
      {"memory-limit", "do not start where a rank needs more than so many MiB in closed form (--show-memory), and say what would fit"},
      {"peak-tflops", "say model FLOP utilisation against this many 1e12 operations per second, of the hardware of all ranks together; measure: against a large product on all ranks at once, before training"},
      {"machine", "machine file (bench_collective --fit) whose link the step model takes, instead of a ping and the calibrated rate"},
      {"trace", "write the last step's timeline to this file (JSON; opens in Chrome or Perfetto)"}};
  program.has_timing_options = false;
  program.answers = answers;
  program.prepare = prepare;
  program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
    for (const Cell& cell : cells) run_training(context, cell);
  };
  return program;
}

TrainConfig train_config_of(const CellParameters& parameters) {
  TrainValues values = parameters.values;
  for (const char* option : {plan_option, timeline_option, keep_at_option, repetition_option, moved_at_option, moved_from_option}) values.erase(option);
  return make_train_config(values);
}

std::int64_t keep_at_of(const CellParameters& parameters, const TrainConfig& config) {
  const std::int64_t at = parameters.has(keep_at_option) ? parameters.integer(keep_at_option) : 0;
  if (at < 0 || at > config.steps) throw UsageError("--keep-at " + std::to_string(at) + " is none of the steps 1 to " + std::to_string(config.steps));
  if (at > 0 && config.compute != ComputeMode::real) throw UsageError("--keep-at does not go with --compute timed, whose steps train nothing");
  return at;
}

void require_ranks(const MeshShape& mesh, int running) {
  const std::string ranks = std::to_string(mesh.ranks());
  if (mesh.ranks() != running)
    throw UsageError("mesh tp " + std::to_string(mesh.tp) + " x pp " + std::to_string(mesh.pp) + " x dp " +
                     std::to_string(mesh.dp) + " needs " + ranks + " ranks, but " + std::to_string(running) +
                     (running == 1 ? " is" : " are") + " running; launch: mpirun -n " + ranks +
                     " train_gpt ..., or choose --tp, --pp and --dp with that product");
}

std::string plan_of(const CellParameters& parameters, const TrainConfig& config) {
  if (parameters.has(plan_option) && !parameters.text(plan_option).empty())
    return parameters.text(plan_option);
  std::string plan;
  for (const auto& [traffic, rule] : config.compress)
    if (rule.active()) plan += (plan.empty() ? "" : "+") + name_of(traffic);
  return plan.empty() ? "dense" : plan;
}

std::string describe_memory(const TrainConfig& config) {
  std::ostringstream text;
  char line[200];
  std::snprintf(line, sizeof line, "%-12s %10s %10s %10s %12s %10s %10s %10s  (MiB)\n", "ranks", "weights",
                "gradients", "optimizer", "activations", "workspace", "codecs", "total");
  text << line;
  const auto write = [&](int first, int last, const MemoryEstimate& m) {
    const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    const std::string ranks =
        first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
    std::snprintf(line, sizeof line, "%-12s %10.1f %10.1f %10.1f %12.1f %10.1f %10.1f %10.1f\n", ranks.c_str(),
                  mib(m.weights), mib(m.gradients), mib(m.optimizer), mib(m.activations), mib(m.workspace),
                  mib(m.codecs), mib(m.total()));
    text << line;
  };
  const auto same = [](const MemoryEstimate& a, const MemoryEstimate& b) {
    return a.weights == b.weights && a.gradients == b.gradients && a.optimizer == b.optimizer &&
           a.activations == b.activations && a.workspace == b.workspace && a.codecs == b.codecs;
  };
  int first = 0;
  MemoryEstimate current = estimate_memory(config, mesh_coordinates(config.mesh, 0));
  for (int rank = 1; rank <= config.mesh.ranks(); ++rank) {
    const bool end = rank == config.mesh.ranks();
    const MemoryEstimate next =
        end ? MemoryEstimate() : estimate_memory(config, mesh_coordinates(config.mesh, rank));
    if (!end && same(next, current)) continue;
    write(first, rank - 1, current);
    first = rank;
    current = next;
  }
  return text.str();
}

}  // namespace thinwire::bench
