#include "bench/training/train_resume.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/harness/gather_texts.h"
#include "core/error.h"
#include "models/training/checkpoint/checkpoint.h"
#include "results/files/files.h"
#include "results/kept_state.h"
#include "results/provenance.h"

namespace thinwire::bench {
namespace {

/// Steps of two builds are no run of either.
std::string own_code() { return results::code_of(results::hash_of_binary("/proc/self/exe")); }

}  // namespace

std::string resume_path(const std::string& folder, const std::string& resume) {
  const std::string kept = "kept:";
  if (!resume.starts_with(kept)) return resume;
  if (folder.empty()) throw UsageError("--resume " + resume + " names what a cell of a sweep kept, and this is none; give --resume FILE.h5");
  return results::kept_state_path(folder, resume.substr(kept.size()));
}

TrainResume::TrainResume(std::string folder, const std::string& cell_id) {
  if (folder.empty()) return;
  checkpoint_ = folder + "/" + cell_id + ".h5";
  steps_ = folder + "/" + cell_id + ".steps.json";
}

void TrainResume::save(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::vector<StepRecord>& steps,
                       const std::map<std::int64_t, double>& validation, const Metrics& metrics) {
  std::vector<std::string> texts = gather_texts(world, to_text(steps));
  std::int32_t failed = 0;
  std::string failure;
  if (world.rank() == 0) {
    nlohmann::json json{{"schema", 1}, {"steps_taken", trainer.steps_taken()}, {"code", own_code()}};
    for (std::size_t rank = 0; rank < texts.size(); ++rank) json["ranks"].push_back(earlier(rank) + texts[rank]);
    json["validation"] = nlohmann::json::array();
    for (const auto& [step, loss] : validation) json["validation"].push_back({step, loss});
    json["metrics"] = nlohmann::json::array();
    for (const auto& [step, list] : metrics)
      for (const Evaluation::Metric& metric : list) json["metrics"].push_back({step, metric.name, metric.value});
    try {
      results::make_folder(std::filesystem::path(steps_).parent_path().string());
      results::write_file_atomically(steps_, json.dump() + "\n");
    } catch (const Error& error) {  // the others must not wait for the checkpoint
      failed = 1;
      failure = error.what();
    }
  }
  world.broadcast(&failed, sizeof failed, 0)->wait();
  if (failed != 0) throw RuntimeFailure(world.rank() == 0 ? failure : "rank 0 cannot save the steps of the run");
  save_checkpoint(world, trainer, config, checkpoint_);
}

std::string TrainResume::load(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config,
                              std::map<std::int64_t, double>& validation, Metrics& metrics) {
  std::int32_t found = 0;
  std::string remark;
  nlohmann::json json;
  if (world.rank() == 0 && enabled() && std::filesystem::exists(checkpoint_)) {
    try {
      json = nlohmann::json::parse(results::read_file(steps_));
      found = json.at("schema") == 1 && json.at("ranks").size() == static_cast<std::size_t>(world.size()) ? 1 : 2;
      if (found == 1 && json.value("code", "") != own_code()) found = 3;
    } catch (const std::exception&) {
      found = 2;
    }
  }
  world.broadcast(&found, sizeof found, 0)->wait();
  if (found == 0) return "";
  if (found == 2) return steps_ + " is missing or damaged; the cell starts anew";
  if (found == 3) return checkpoint_ + " was saved by another build of this program, and a record is of one; the cell starts anew";
  ResumeReport resumed;
  TrainConfig goes_on = config;
  goes_on.reset_codec_state = goes_on.reset_replica_state = false;  // asked for at the beginning, and done then
  try {
    resumed = load_checkpoint(world, trainer, goes_on, checkpoint_);
  } catch (const Error& error) {  // on all ranks alike, and the trainer is as it was
    return std::string("the saved state cannot be used, the cell starts anew: ") + error.what();
  }
  if (world.rank() == 0) {
    for (const auto& text : json.at("ranks")) {
      std::vector<StepRecord> steps = steps_from_text(text.get<std::string>());
      // A later save may have been cut off between the two files: its steps run again.
      std::erase_if(steps, [&](const StepRecord& step) { return step.step >= resumed.steps; });
      earlier_.push_back(to_text(steps));
    }
    for (const auto& entry : json.at("validation"))
      if (entry.at(0).get<std::int64_t>() < resumed.steps) validation[entry.at(0).get<std::int64_t>()] = entry.at(1).get<double>();
    for (const auto& entry : json.value("metrics", nlohmann::json::array()))
      if (const auto step = entry.at(0).get<std::int64_t>(); step < resumed.steps)
        metrics[step].push_back({entry.at(1).get<std::string>(), entry.at(2).get<double>()});
  }
  return "goes on after step " + std::to_string(resumed.steps) + " from " + checkpoint_;
}

void TrainResume::remove() const {
  std::error_code ignored;
  std::filesystem::remove(checkpoint_, ignored);
  std::filesystem::remove(steps_, ignored);
}

}  // namespace thinwire::bench
