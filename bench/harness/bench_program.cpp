#include "bench/harness/bench_program.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include "bench/harness/launch_file.h"
#include "bench/harness/options.h"
#include "bench/harness/product_choice.h"
#include "bench/harness/recorder.h"
#include "collectives/link/emulated_network.h"
#include "core/process/environment.h"
#include "core/process/log.h"
#include "core/process/main_guard.h"
#include "core/process/stop_request.h"
#include "results/files/tuned_products.h"

namespace thinwire::bench {

std::string CellParameters::text(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) throw UsageError("parameter `" + name + "` is missing; give it as --" + name + " or in the launch file");
  return found->second;
}

std::int64_t CellParameters::integer(const std::string& name) const {
  const std::string value = text(name);
  std::int64_t number = 0;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
  if (result.ec != std::errc() || result.ptr != value.data() + value.size()) throw UsageError("--" + name + "=" + value + " is not a whole number");
  return number;
}

double CellParameters::real(const std::string& name) const {
  const std::string value = text(name);
  double number = 0;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
  if (result.ec != std::errc() || result.ptr != value.data() + value.size() || number - number != 0)
    throw UsageError("--" + name + "=" + value + " is not a number");
  return number;
}

bool CellParameters::flag(const std::string& name) const {
  const std::string value = text(name);
  if (value == "true" || value == "on" || value == "1") return true;
  if (value == "false" || value == "off" || value == "0") return false;
  throw UsageError("--" + name + "=" + value + " is neither true nor false");
}

namespace {

/// Explicit values over defaults; unknown names are refused.
CellParameters with_defaults(const BenchProgram& program, const std::map<std::string, std::string>& given, const std::string& where) {
  CellParameters parameters;
  std::vector<std::string> names;
  for (const BenchOption& option : all_options(program)) {
    parameters.values[option.name] = option.default_value;
    names.push_back(option.name);
  }
  for (const auto& [name, value] : given) {
    if (!parameters.has(name))
      throw UsageError(where + ": " + program.name + " has no parameter `" + name + "`; did you mean `" +
                       nearest_name(name, names.data(), names.data() + names.size()) + "`? See " + program.name + " --help");
    parameters.values[name] = value;
  }
  return parameters;
}

/// The greatest severity of any rank (0: all is well), and the first rank that has it.
struct Worst {
  std::int32_t severity = 0;
  int rank = 0;
};
Worst worst_of(Communicator& world, std::int32_t severity) {
  Worst worst;
  world.all_reduce(&severity, &worst.severity, 1, DType::i32, ReduceOp::max)->wait();
  const std::int32_t candidate = severity == worst.severity ? -world.rank() : -world.size();
  std::int32_t first = 0;
  world.all_reduce(&candidate, &first, 1, DType::i32, ReduceOp::max)->wait();
  worst.rank = -first;
  return worst;
}

/// All ranks learn the worst outcome and the first rank's words about it.
struct Agreement {
  std::int32_t severity = 0;
  std::string reason;
};
Agreement agree(Communicator& world, std::int32_t severity, const std::string& reason) {
  Agreement result;
  const Worst worst = worst_of(world, severity);
  result.severity = worst.severity;
  if (result.severity == 0) return result;
  std::int64_t length = static_cast<std::int64_t>(reason.size());
  world.broadcast(&length, sizeof length, worst.rank)->wait();
  result.reason = worst.rank == world.rank() ? reason : std::string(static_cast<std::size_t>(length), ' ');
  if (length > 0) world.broadcast(result.reason.data(), length, worst.rank)->wait();
  return result;
}

/// A command line that is refused on one rank or on all: the first of the ranks whose refusal weighs most says why and ends the job; the
/// others wait for that. One that left by itself could have the launcher end the job before a word is out.
void one_refuses_for_all(const std::exception_ptr& refusal, std::int32_t status, Communicator& world) {
  const Worst worst = worst_of(world, status);
  if (worst.severity == 0) return;
  if (worst.rank == world.rank()) std::rethrow_exception(refusal);
  world.barrier();  // in which the end of the job reaches this rank
  throw RuntimeFailure("rank " + std::to_string(worst.rank) + " refused the command line and did not end the job");
}

int run_cells(const BenchProgram& program, const CommandLine& line, const std::optional<Launch>& launch, int argc, char** argv, Communicator& world) {
  RecorderOptions options;
  options.program = program.name;
  options.command.assign(argv, argv + argc);
  options.out = !line.out.empty() || !launch ? line.out : launch->out;
  options.json = line.json;
  options.link = launch ? launch->link : line.link;
  if (launch) {
    options.launch = launch->launch;
    options.config_hash = launch->hash;
  }
  Recorder recorder(options, world);

  std::vector<Cell> cells;
  if (launch) {
    for (const LaunchCell& cell : launch->cells) {
      std::map<std::string, std::string> given;
      for (const auto& [name, value] : cell.parameters.values())
        if (name != results::product_library_parameter) given[name] = results::to_text(value);
      cells.push_back({cell.cell_id, with_defaults(program, given, line.cells_file + ", cell " + cell.cell_id.substr(0, 12))});
      recorder.declare(cell.cell_id, cell.parameters);
    }
  } else {
    results::Parameters parameters;
    for (const auto& [name, value] : line.values) parameters.set(name, parameter_from_text(value));
    if (!line.product_library.empty()) parameters.set(results::product_library_parameter, line.product_library);
    const std::string id = results::cell_id(program.name, world.size(), line.link, parameters);
    cells.push_back({id, with_defaults(program, line.values, "command line")});
    recorder.declare(id, parameters);
  }

  // An emulated link slows what is measured, not the bookkeeping of cells.
  std::unique_ptr<Communicator> emulated;
  if (EmulatedLink::is_emulated(options.link)) emulated = make_emulated_communicator(world.duplicate(), EmulatedLink::parse(options.link));
  BenchContext context{emulated ? *emulated : world, line.check_only, options.link, [&](const Cell& cell, Measured measured) { recorder.finish(cell, std::move(measured)); },
                       [&](const Cell& cell) { recorder.start(cell); },
                       [&](const Cell& cell, const std::string& text) { recorder.note(cell, text); },
                       line.run_options,
                       line.json == "-" ? stderr : stdout,
                       launch ? launch->resume : "",
                       false,
                       launch.has_value(),
                       &world};
  // Cells of one group stay in launch order; groups start in the order of their first cell.
  std::vector<std::pair<std::string, std::vector<Cell>>> groups;
  for (const Cell& cell : cells) {
    const std::string key = program.group_key ? program.group_key(cell.parameters) : cell.cell_id;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == key; });
    if (found == groups.end())
      groups.push_back({key, {cell}});
    else
      found->second.push_back(cell);
  }
  recorder.launch_started();
  watch_for_stop_request();
  for (const auto& group : groups) {
    // Between groups of a launch nothing is lost by an early end: the sweep starts the rest again.
    if (launch && agree(world, stop_requested() ? 1 : 0, "").severity != 0) return static_cast<int>(ExitCode::stopped);
    const auto run = [&] { program.run_group(context, group.second); };
    if (launch && group.second.size() == 1)
      guarded(context, group.second.front(), run);
    else
      run();
    if (context.stopped) return static_cast<int>(ExitCode::stopped);
  }
  recorder.launch_finished();
  return recorder.exit_status();
}

}  // namespace

std::function<std::string(const CellParameters&)> grouped_by(std::vector<std::string> names) {
  return [names = std::move(names)](const CellParameters& p) {
    std::string key;
    for (const std::string& name : names) key += p.text(name) + "|";
    return key;
  };
}

bool guarded(BenchContext& context, const Cell& cell, const std::function<void()>& body) {
  // Severity orders what ranks may disagree on; a wrong number outweighs a refusal.
  enum : std::int32_t { well = 0, skipped = 1, failed = 2, wrong = 3 };
  std::int32_t severity = well;
  std::string reason;
  try {
    body();
  } catch (const WrongResult& error) {
    severity = wrong;
    reason = error.what();
  } catch (const UsageError& error) {
    severity = failed;
    reason = error.what();
  } catch (const EnvironmentError& error) {
    severity = skipped;
    reason = error.what();
  }
#ifdef __GLIBC__
  malloc_trim(0);  // a cell's freed buffers would stay with the process, and a machine runs many ranks
#endif
  const Agreement agreed = agree(context.world, severity, reason);
  if (agreed.severity == well) return true;
  Measured measured;
  results::CellRow row;
  constexpr results::Status statuses[] = {results::Status::ok, results::Status::skipped, results::Status::failed, results::Status::wrong};
  row.status = results::name_of(statuses[agreed.severity]);
  row.reason = agreed.reason;
  measured.rows.push_back(std::move(row));
  context.finish(cell, std::move(measured));
  return false;
}

int run_bench(int argc, char** argv, const BenchProgram& program) {
  std::optional<CommandLine> line;
  std::optional<Launch> launch;
  std::exception_ptr refusal;
  std::int32_t status = 0;
  bool answers = false;
  try {
    line = parse_command_line(argc, argv, program);
    answers = line && program.answers && program.answers(*line);
    if (answers && Environment::launch_rank().value_or(0) != 0) return 0;
    if (!line || (program.prepare && !program.prepare(*line))) return 0;
    if (!line->cells_file.empty()) launch = read_launch_file(line->cells_file);
    // A rank may see another machine file or another processor than rank 0: each takes its own.
    line->product_library = launch ? product_library_of(*launch) : product_library_of_command(line->product_library);
    take_product_library(line->product_library, argv);
  } catch (const Error& error) {
    if (answers || Environment::launch_size().value_or(1) < 2) throw;
    refusal = std::current_exception();
    status = error.exit_status();
  }
  MpiEnvironment mpi(&argc, &argv);
  const std::unique_ptr<Communicator> world = mpi.world();
  set_log_rank(world->rank());
  one_refuses_for_all(refusal, status, *world);
  require_one_choice(line->product_library, *world);
  return run_cells(program, *line, launch, argc, argv, *world);
}

}  // namespace thinwire::bench
