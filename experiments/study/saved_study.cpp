#include "experiments/study/saved_study.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/joined.h"
#include "core/sha256.h"
#include "results/files/files.h"

namespace thinwire::sweep {

namespace {
constexpr const char* ending = ".study.toml";
}

std::string saved_study_path(const std::string& out, const std::string& name) { return out + "/" + name + ending; }

void save_study(const Study& study, const std::string& out) {
  const std::string path = saved_study_path(out, study.name);
  const std::string body = to_toml(study);
  // A continued study shall not change the note on where it came from.
  if (std::filesystem::exists(path) && results::read_file(path).ends_with(body)) return;
  results::write_file_atomically(path, "# " + std::filesystem::path(study.path).filename().string() + " (SHA-256 " + sha256_hex(study.text) +
                                           ") with its includes and --set resolved. Written by sweep;\n# `sweep resume` continues from here.\n" + body);
}

void save_machine(const Machine& machine, const std::string& out) {
  const std::string path = out + "/machine.toml";
  std::error_code ignored;
  if (machine.text.empty())
    std::filesystem::remove(path, ignored);
  else if (!std::filesystem::exists(path) || results::read_file(path) != machine.text)
    results::write_file_atomically(path, machine.text);
}

std::string find_saved_study(const std::string& out) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out, error))
    if (entry.path().string().ends_with(ending)) found.push_back(entry.path().string());
  if (error || found.empty())
    throw UsageError(out + ": no study was started in this folder; name one: sweep run STUDY --out DIR");
  if (found.size() == 1) return found.front();
  std::sort(found.begin(), found.end());
  throw UsageError(out + " holds several studies; name one of them: " + joined(found));
}

}  // namespace thinwire::sweep
