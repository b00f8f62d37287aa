#include "experiments/claims/sharded_compression/cells/kept_numbers.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/files/files.h"

namespace thinwire::claims::sharded_compression {

Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute) {
  const std::filesystem::path folder = std::filesystem::path(context.out) / "sharded_compression.numbers_probe", path = folder / (name + ".json");
  if (std::filesystem::exists(path)) {
    try {
      const nlohmann::json kept = nlohmann::json::parse(results::read_file(path.string()));
      if (kept.at("format") == format) return kept.at("numbers").get<Numbers>();
    } catch (const nlohmann::json::exception& e) {
      throw CorruptData(path.string() + " does not hold kept numbers (" + e.what() + "); remove it, and they are computed again");
    }
  }
  context.cells.about_to_compute(what);
  Numbers numbers = compute();
  std::filesystem::create_directories(folder);
  results::write_file_atomically(path.string(), nlohmann::json{{"format", format}, {"numbers", numbers}}.dump());
  return numbers;
}

}  // namespace thinwire::claims::sharded_compression
