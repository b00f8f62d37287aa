// Numbers that the claims program computes itself, kept in the result folder: a training in this process need not give the same last bit elsewhere, and takes its time. Each file carries the hash of the
// sources that computed it; where they have changed since, --if-code-changed says what becomes of it, as of a cell of another build. It carries that of the machine's text, too: numbers of two texts do not
// stand side by side.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <source_location>
#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims {

struct Kept {
  std::string folder;  ///< of the result folder; its name ends with _probe
  std::string name;
  int format = 1;      ///< of the file; raise it when it holds something else
  std::string what;    ///< is computed, in words: for plans
  std::vector<std::string> computed_by;  ///< sources of experiments/claims, as in Claim::computed_by
};

/// Gives `read` the object that is kept, of this format, else the one that `compute` gives, which is kept then. Refused where other sources computed the kept one and nobody said what becomes of it, or
/// where it is to be computed beside numbers of another text; CorruptData where `read` finds no such object in the file.
void kept_json(const JudgeContext& context, const Kept& kept, const std::function<nlohmann::json()>& compute, const std::function<void(const nlohmann::json&)>& read);

using Numbers = std::map<std::string, std::vector<double>>;

/// The same of numbers by name, which lie in one folder for all pages.
Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute, const std::vector<std::string>& computed_by);
/// Computed by the calling file alone.
Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute,
                     std::source_location where = std::source_location::current());

}  // namespace thinwire::claims
