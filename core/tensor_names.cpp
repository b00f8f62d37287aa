#include "core/tensor_names.h"

#include <cstdio>
#include <map>
#include <mutex>

#include "core/random.h"

namespace thinwire {
namespace {

std::mutex mutex;
// Leaked: the watchdog's thread may ask while static objects are being destroyed.
std::map<std::uint64_t, std::string>& names() {
  static auto* map = new std::map<std::uint64_t, std::string>;
  return *map;
}

}  // namespace

std::uint64_t tensor_id(std::string_view name) {
  const std::uint64_t id = hash_name(name);
  const std::lock_guard lock(mutex);
  names().try_emplace(id, name);
  return id;
}

std::string tensor_label(std::uint64_t id) {
  const std::lock_guard lock(mutex);
  const auto found = names().find(id);
  if (found != names().end()) return "tensor '" + found->second + "'";
  char text[32];
  std::snprintf(text, sizeof text, "tensor 0x%016llx", static_cast<unsigned long long>(id));
  return text;
}

}  // namespace thinwire
