// doctor: tries out what the main job needs of this machine, each part with a time limit and one line of advice.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/doctor/doctor_checks.h"
#include "bench/doctor/mpi_hello.h"
#include "bench/doctor/tune_products.h"
#include "collectives/link/link_calibration.h"
#include "core/error.h"
#include "core/process/command_line.h"
#include "core/process/environment.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

struct Options {
  DoctorContext context;
  std::vector<std::string> only;
  std::string json, tune, tune_child;
  bool mpi_hello = false, link_check = false, list = false;
  std::vector<std::int64_t> bytes = {16384, 65536, 262144, 1048576};
  int repetitions = 5;
};

void write_json(const std::string& where, const nlohmann::json& value) {
  if (where.empty()) return;
  std::FILE* to = where == "-" ? stdout : std::fopen(where.c_str(), "w");
  if (to == nullptr) throw EnvironmentError("--json file '" + where + "' cannot be written; choose another folder");
  std::fprintf(to, "%s\n", value.dump(2).c_str());
  if (to != stdout) std::fclose(to);
}

int mpi_hello(int argc, char** argv) {
  MpiEnvironment mpi(&argc, &argv);
  const auto world = mpi.world();
  exchange_pairwise(*world);
  if (world->rank() == 0) std::printf("%d ranks, %s\n", world->size(), MpiEnvironment::library_version().c_str());
  return 0;
}

int link_check(const Options& options, int argc, char** argv) {
  const std::string link = Environment::get("THINWIRE_LINK").value_or("shm");
  MpiEnvironment mpi(&argc, &argv);
  const auto world = mpi.world();
  if (world->size() < 2) throw UsageError("a link has two ends: start the link check with 2 ranks or more");
  CalibrationOptions calibration;
  calibration.repetitions = options.repetitions;
  const std::vector<LinkRate> rates = calibrate_link(*world, link, options.bytes, calibration);
  if (world->rank() != 0) return 0;
  nlohmann::json result = {{"link", link}, {"ranks", world->size()}, {"rates", nlohmann::json::array()}};
  std::FILE* table = options.json == "-" ? stderr : stdout;
  std::fprintf(table, "# link %s, %d ranks; payload rates in Gbit/s, medians of %d\n", link.c_str(), world->size(), options.repetitions);
  std::fprintf(table, "#%11s %10s %10s %10s %18s  %s\n", "bytes", "direction", "nominal", "measured", "measured/nominal", "trusted");
  for (const LinkRate& r : rates) {
    std::fprintf(table, "%12lld %10s %10.4f %10.4f %18.3f  %s\n", static_cast<long long>(r.bytes), r.direction.c_str(), r.nominal_gbps,
                 r.measured_gbps, r.measured_gbps / r.nominal_gbps, r.trusted ? "yes" : ("no: " + r.reason).c_str());
    result["rates"].push_back({{"bytes", r.bytes}, {"direction", r.direction}, {"nominal_gbps", r.nominal_gbps},
                               {"measured_gbps", r.measured_gbps}, {"trusted", r.trusted}});
  }
  write_json(options.json, result);
  return 0;
}

int examine(const Options& options) {
  bool fit = true;
  nlohmann::json result = {{"checks", nlohmann::json::array()}};
  std::FILE* table = options.json == "-" ? stderr : stdout;
  for (const Check& check : doctor_checks()) {
    if (!options.only.empty() && std::find(options.only.begin(), options.only.end(), check.name) == options.only.end()) continue;
    const Finding finding = run_check(check, options.context);
    std::fprintf(table, "%-7s %-14s %s\n", name_of(finding.verdict).c_str(), check.name.c_str(), finding.detail.c_str());
    if (!finding.advice.empty()) std::fprintf(table, "%22s -> %s\n", "", finding.advice.c_str());
    std::fflush(table);
    if (finding.verdict == Verdict::failed) fit = false;
    result["checks"].push_back({{"name", check.name},
                                {"required", check.required},
                                {"verdict", name_of(finding.verdict)},
                                {"detail", finding.detail},
                                {"advice", finding.advice}});
  }
  result["main_job_can_run"] = fit;
  std::fprintf(table, "%s\n", fit ? "The main job can run here." : "The main job cannot run here yet; the lines marked FAILED say why.");
  write_json(options.json, result);
  return static_cast<int>(fit ? ExitCode::ok : ExitCode::environment);
}

/// For --help: all programs read these.
std::string environment_text() {
  std::string text = "Environment variables, of all programs:\n";
  for (const Environment::Variable& variable : Environment::documented()) {
    const std::string name = variable.name;
    text += "  " + name + std::string(name.size() < 27 ? 27 - name.size() : 1, ' ') + variable.meaning + "\n";
  }
  return text;
}

int run(int argc, char** argv) {
  Options options;
  std::error_code no_proc;
  options.context.program = std::filesystem::canonical("/proc/self/exe", no_proc).string();
  if (no_proc) throw EnvironmentError("/proc is not mounted here (a chroot?): mount -t proc proc /proc");
  CLI::App app("Tries out what the main job needs of this machine. Exit status 0: it can run; 3: something required is missing.", "doctor");
  app.option_defaults()->always_capture_default();
  app.footer(environment_text());
  app.add_flag("--quick", options.context.quick, "two ranks only, small products");
  app.add_flag("--list", options.list, "names of the checks");
  app.add_option("--only", options.only, "these checks only, comma separated")->delimiter(',');
  app.add_option("--json", options.json, "findings as JSON to a file, or - for stdout (the table then goes to stderr)");
  app.add_option("--out", options.context.out, "folder in which results would be written");
  app.add_option("--source", options.context.source, "folder of the repository (default: found from this program's place)");
  app.add_flag("--link-check", options.link_check, "under experiments/lab/launch.sh or mpirun: measure the link between the ranks");
  app.add_option("--bytes", options.bytes, "message sizes of --link-check, comma separated")->delimiter(',')->check(CLI::Range(1, 1 << 28));
  app.add_option("--repetitions", options.repetitions, "of each size of --link-check")->check(CLI::Range(1, 1000));
  app.add_option("--tune", options.tune, "measure which library multiplies f32 matrices fastest here and write the choice into this machine file (docs/measuring.md); with as many threads as OMP_NUM_THREADS says");
  app.add_option("--tune-child", options.tune_child)->group("");  // what --tune starts with the kernels of each contender
  app.add_flag("--mpi-hello", options.mpi_hello)->group("");  // what the mpi check starts under mpirun
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (options.mpi_hello) return mpi_hello(argc, argv);
  if (!options.tune_child.empty()) return tune_child(options.tune_child, options.context.quick);
  if (!options.tune.empty()) return tune_products(options.tune, options.context, options.json == "-" ? stderr : stdout);
  if (options.link_check) return link_check(options, argc, argv);
  for (const std::string& name : options.only) {
    const auto& checks = doctor_checks();
    if (std::none_of(checks.begin(), checks.end(), [&](const Check& c) { return c.name == name; }))
      throw UsageError("there is no check '" + name + "'; doctor --list names them");
  }
  if (options.list) {
    for (const Check& check : doctor_checks()) std::printf("%-14s %s\n", check.name.c_str(), check.required ? "required" : "optional");
    return 0;
  }
  if (options.context.source.empty()) options.context.source = find_source(options.context.program);
  return examine(options);
}

}  // namespace

int main(int argc, char** argv) { return guarded_main(argc, argv, run); }
