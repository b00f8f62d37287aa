#include "experiments/claims/kept/kept.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/claims/source_hash.h"
#include "experiments/claims/text/text_entropies.h"
#include "results/files/files.h"

namespace thinwire::claims {
namespace {

/// Refused where numbers beside the ones to be computed are of another text: the seeds of one claim lie there.
void require_one_text(const std::filesystem::path& folder, const std::filesystem::path& anew) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path() == anew || entry.path().extension() != ".json") continue;
    const nlohmann::json beside = nlohmann::json::parse(results::read_file(entry.path().string()), nullptr, /*allow_exceptions=*/false);
    const std::string text = beside.is_object() ? beside.value("text", "") : "";
    if (text.empty()) continue;  // from before they said it
    try {
      require_text_here(text, entry.path().string());
    } catch (const UsageError& error) {
      throw Refused{error};
    }
  }
}

}  // namespace

void kept_json(const JudgeContext& context, const Kept& kept, const std::function<nlohmann::json()>& compute, const std::function<void(const nlohmann::json&)>& read) {
  const std::filesystem::path folder = std::filesystem::path(context.out) / kept.folder, path = folder / (kept.name + ".json");
  const std::string code = hash_of_sources(kept.computed_by);
  if (std::filesystem::exists(path)) {
    try {
      const nlohmann::json found = nlohmann::json::parse(results::read_file(path.string()));
      // Files of before they carried a hash are other code's, as records without one are.
      if (found.at("format") == kept.format && context.cells.stands(path.string(), found.value("code", ""), code)) return read(found);
    } catch (const nlohmann::json::exception& e) {
      throw CorruptData(path.string() + " does not hold what is kept there (" + e.what() + "); remove it, and it is computed again");
    }
  }
  context.cells.about_to_compute(kept.what);
  require_one_text(folder, path);
  nlohmann::json now = compute();
  now["format"] = kept.format, now["code"] = code, now["text"] = hash_of_text_here();
  std::filesystem::create_directories(folder);
  results::write_file_atomically(path.string(), now.dump());
  read(now);
}

Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute, const std::vector<std::string>& computed_by) {
  Numbers numbers;
  kept_json(
      context, {"claims.numbers_probe", name, format, what, computed_by}, [&] { return nlohmann::json{{"numbers", compute()}}; },
      [&](const nlohmann::json& kept) { numbers = kept.at("numbers").get<Numbers>(); });
  return numbers;
}

Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute, std::source_location where) {
  return kept_numbers(context, name, format, what, compute, {source_of(where)});
}

}  // namespace thinwire::claims
