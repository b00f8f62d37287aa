#include <map>

#include "models/update/update_policy.h"

namespace thinwire {
namespace {

// Function-local so that it exists before the first registration, whatever the order of static objects.
std::map<std::string, UpdateInfo>& updates() {
  static std::map<std::string, UpdateInfo> all;
  return all;
}

}  // namespace

bool register_update(UpdateInfo info) {
  TW_ASSERT(!info.name.empty() && info.make_f32 && info.make_f64 && info.classes, "an update policy without a name, a maker or its classes");
  const std::string name = info.name;
  TW_ASSERT(updates().emplace(name, std::move(info)).second, "update policy '" + name + "' is registered twice");
  return true;
}

std::vector<const UpdateInfo*> all_updates() {
  std::vector<const UpdateInfo*> list;
  for (const auto& [name, info] : updates()) list.push_back(&info);
  return list;
}

UpdateExpression parse_update(const std::string& text) {
  std::vector<NamedSchema> known;
  for (const auto& [name, info] : updates()) known.push_back({name, info.parameters});
  CodecExpression::Part part = parse_named(text, known, "optimizer");
  return {&updates().at(part.name), std::move(part.parameters)};
}

}  // namespace thinwire
