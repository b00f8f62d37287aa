#include "bench/training/moved_start.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "bench/training/train_program.h"
#include "core/error.h"
#include "models/training/agreement.h"

namespace thinwire::bench {
namespace {

/// "dp=4 compress.dp_gradient=topk:fraction=0.1": the first = ends the flag.
CellParameters with_settings(CellParameters parameters, const std::string& settings) {
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    const std::size_t end = word.find('=');
    if (end == std::string::npos) throw UsageError("--" + std::string(moved_from_option) + " has \"" + word + "\" where flag=value is expected, as in \"zero-stage=3 dp=4\"");
    parameters.values[word.substr(0, end)] = word.substr(end + 1);
  }
  return parameters;
}

}  // namespace

std::optional<MovedStart> moved_start_of(const CellParameters& parameters, const TrainConfig& config) {
  const std::string flag = "--" + std::string(moved_at_option), at = parameters.has(moved_at_option) ? parameters.text(moved_at_option) : "0";
  const std::string settings = parameters.has(moved_from_option) ? parameters.text(moved_from_option) : "";
  MovedStart start;
  std::istringstream number(at);
  if (!(number >> start.steps) || !number.eof() || start.steps < 0) throw UsageError(flag + " " + at + " is no number of steps");
  if (start.steps == 0) {
    if (!settings.empty()) throw UsageError("--" + std::string(moved_from_option) + " says how the first steps are trained, but " + flag + " is 0: there are none");
    return std::nullopt;
  }
  if (start.steps >= config.steps) throw UsageError(flag + " " + at + " leaves no step of --steps " + std::to_string(config.steps));
  if (config.compute != ComputeMode::real) throw UsageError(flag + " does not go with --compute timed, whose steps train nothing");
  if (!config.resume.empty() || config.shared_start > 0) throw UsageError(flag + " does not go with --resume and --shared-start: the run can begin in one place only");
  start.from = train_config_of(with_settings(parameters, settings));
  start.from.check();
  require_ranks(start.from.mesh, config.mesh.ranks());
  return start;
}

ResumeReport begin_moved(Communicator& world, Communicator& files, ParallelTrainer& trainer, const TrainConfig& config, const MovedStart& start) {
  const TrainConfig& from = start.from;
  // Rank 0 alone writes and reads it.
  const std::string path = (std::filesystem::temp_directory_path() / ("thinwire-moved-" + std::to_string(getpid()) + ".h5")).string();
  {
    const auto before = ParallelTrainer::make(world, from, open_data(from.data, from.text, from.model.seed, from.global_batch, from.vocabulary));
    while (before->steps_taken() < start.steps) (void)before->step();
    save_checkpoint(files, *before, from, path);
  }
  const auto remove = [&] {
    std::error_code ignored;
    if (world.rank() == 0) std::filesystem::remove(path, ignored);
  };
  try {
    const ResumeReport report = load_checkpoint(files, trainer, config, path);
    remove();
    return report;
  } catch (...) {
    remove();
    throw;
  }
}

}  // namespace thinwire::bench
