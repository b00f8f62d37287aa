// predict_step: iteration time, exposed time per class and timeline of a training step on a machine that is described by three files.
//   predict_step --machine M.toml --model G.toml --execution E.toml [E2.toml ...] [--trace step.json]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/training/timeline.h"
#include "core/error.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "models/cost_model/step_files.h"
#include "results/files/files.h"

namespace {

using namespace thinwire;

struct Options {
  std::string machine, model, trace;
  std::vector<std::string> executions;
  bool json = false;
};

struct Predicted {
  Execution execution;
  StepPrediction low, high;  ///< at the low and the high end of the machine's compute and codec rates
};

void print(const ClusterMachine& machine, const ModelShape& model, const std::vector<Predicted>& all) {
  std::printf("%s on %s: ", model.name.c_str(), machine.name.c_str());
  if (machine.measured())
    std::printf("compute as measured");
  else
    std::printf("%g to %g TFLOP/s per rank", machine.tflops.low, machine.tflops.high);
  std::printf("%s\n%-16s %10s", machine.source.empty() ? "" : (" (assumption, " + machine.source + ")").c_str(), "execution", "step (ms)");
  for (const StepPart part : all_step_parts) std::printf(" %17s", name_of(part).c_str());
  std::printf("   exposed, ms; gain over the first\n");
  for (const Predicted& p : all)
    for (const StepPrediction* at : {&p.low, &p.high}) {
      if (at == &p.high && p.low.step_us == p.high.step_us) break;
      const double first = at == &p.low ? all.front().low.step_us : all.front().high.step_us;
      std::printf("%-16s %10.1f", p.execution.name.c_str(), at->step_us * 1e-3);
      for (const StepPart part : all_step_parts) std::printf(" %17.2f", at->exposed_us[static_cast<std::size_t>(part)] * 1e-3);
      std::printf("   %.3fx\n", first / at->step_us);
    }
}

std::string to_json(const std::vector<Predicted>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Predicted& p : all) {
    nlohmann::ordered_json one = {{"execution", p.execution.name}};
    for (const auto& [name, at] : {std::pair{"low", &p.low}, {"high", &p.high}}) {
      one[name]["step_ms"] = at->step_us * 1e-3;
      for (const StepPart part : all_step_parts) one[name]["exposed_ms"][name_of(part)] = at->exposed_us[static_cast<std::size_t>(part)] * 1e-3;
    }
    list.push_back(std::move(one));
  }
  return list.dump(1) + "\n";
}

void write_trace(const Options& options, const ClusterMachine& machine, const ModelShape& model, const Predicted& first) {
  std::vector<int> ranks;
  for (int stage = 0; stage < first.execution.mesh.pp; ++stage) ranks.push_back(mesh_rank(first.execution.mesh, {0, stage, 0}));
  const auto rows = timeline_of(cluster_schedule(first.execution), cluster_costs(machine, model, first.execution, RangeEnd::low), first.low, ranks);
  results::write_file_atomically(options.trace, bench::chrome_trace(rows, first.execution.mesh));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Predicts a training step: iteration time, exposed time per traffic class, timeline. docs/step-model.md", "predict_step");
  app.add_option("--machine", options.machine, "TOML file: nodes, rates inside and between them, compute")->required();
  app.add_option("--model", options.model, "TOML file: layers, hidden, heads, seq, vocabulary; kind of model (gpt)")->required();
  app.add_option("--execution", options.executions, "TOML files: mesh, micro-batches, schedule, codecs; several are compared with the first")->required();
  app.add_option("--trace", options.trace, "write the first execution's timeline to this file (JSON; opens in Chrome or Perfetto)");
  app.add_flag("--json", options.json, "as JSON");
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  const ClusterMachine machine = read_cluster_machine(options.machine);
  const ModelShape model = read_model_shape(options.model);
  std::vector<Predicted> all;
  for (const std::string& path : options.executions) {
    Predicted p;
    p.execution = read_execution(path);
    const Schedule schedule = cluster_schedule(p.execution);
    p.low = predict_step(schedule, cluster_costs(machine, model, p.execution, RangeEnd::low));
    p.high = predict_step(schedule, cluster_costs(machine, model, p.execution, RangeEnd::high));
    all.push_back(std::move(p));
  }
  if (options.json)
    std::fputs(to_json(all).c_str(), stdout);
  else
    print(machine, model, all);
  if (!options.trace.empty()) write_trace(options, machine, model, all.front());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return guarded_main(argc, argv, run); }
