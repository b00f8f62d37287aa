#include "experiments/claims/gradient_compression/cells/requests.h"

#include <algorithm>

namespace thinwire::claims::gradient_compression {
namespace {

CellRequest request(const std::string& program, int ranks, const std::map<std::string, std::string>& base, const std::map<std::string, std::string>& settings) {
  CellRequest r;
  r.program = program;
  r.ranks = ranks;
  r.timed = false;
  for (const auto* group : {&base, &settings})
    for (const auto& [name, value] : *group) r.parameters.set(name, value);
  r.tags = {"gradient_compression"};
  return r;
}

}  // namespace

CellRequest reduction_request(int ranks, std::int64_t rows, const std::string& codec, const std::map<std::string, std::string>& settings) {
  return request("bench_gradient", ranks,
                 {{"dp", std::to_string(ranks)}, {"rows", std::to_string(rows)}, {"hidden", "1024"}, {"generator", "gaussian"}, {"comm-dtype", "f32"}, {"repetitions", "1"}, {"codec", codec}}, settings);
}

CellRequest training_request(int ranks, int steps, const std::map<std::string, std::string>& settings) {
  const std::string n = std::to_string(ranks);
  return request("train_gpt", ranks,
                 {{"dp", n}, {"layers", "2"}, {"hidden", "128"}, {"heads", "4"}, {"seq", "32"}, {"micro-batch", "1"}, {"global-batch", n}, {"eval-sequences", n}, {"steps", std::to_string(steps)}}, settings);
}

std::int64_t sent(const results::CellRecord& record, const std::string& traffic, Share share, std::int64_t step) {
  std::int64_t bytes = 0;
  for (const results::TrainingStepRow& row : record.training.steps) {
    const bool dense = row.codec == "none";
    if (row.traffic != traffic || (share == Share::coded && dense) || (share == Share::dense && !dense) || (step >= 0 && row.step != step)) continue;
    bytes += row.link_bytes;
  }
  return bytes;
}

std::int64_t peak(const results::CellRecord& record) {
  std::int64_t most = 0;
  for (const results::TrainingMemoryRow& row : record.training.memory) most = std::max(most, row.peak_bytes);
  return most;
}

}  // namespace thinwire::claims::gradient_compression
