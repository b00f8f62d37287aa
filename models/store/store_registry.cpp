#include <map>

#include "core/error.h"
#include "models/store/parameter_store.h"

namespace thinwire {
namespace {

// Function-local so that it exists before the first registration, whatever the order of static objects.
std::map<int, StoreInfo>& stores() {
  static std::map<int, StoreInfo> all;
  return all;
}

}  // namespace

bool register_store(StoreInfo info) {
  TW_ASSERT(info.make_f32 && info.make_f64 && info.footprint, "a parameter store without a maker or a footprint");
  const int stage = info.zero_stage;
  TW_ASSERT(stores().emplace(stage, std::move(info)).second, "zero stage " + std::to_string(stage) + " is registered twice");
  return true;
}

const StoreInfo& store_info(int zero_stage) {
  const auto found = stores().find(zero_stage);
  if (found != stores().end()) return found->second;
  std::string list;
  for (const auto& [stage, info] : stores()) list += (list.empty() ? "" : ", ") + std::to_string(stage) + " (" + info.summary + ")";
  throw UsageError("--zero-stage " + std::to_string(zero_stage) + " does not exist; there are: " + list);
}

std::vector<const StoreInfo*> all_stores() {
  std::vector<const StoreInfo*> list;
  for (const auto& [stage, info] : stores()) list.push_back(&info);
  return list;
}

}  // namespace thinwire
