#include "models/data/dataset.h"

#include <map>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

std::map<std::string, DataKind>& registry() {
  static std::map<std::string, DataKind> kinds;
  return kinds;
}

}  // namespace

RegisterData::RegisterData(DataKind kind) {
  const std::string name = kind.name;
  TW_ASSERT(registry().emplace(name, std::move(kind)).second, "two kinds of data of one name");
}

std::vector<DataKind> data_kinds() {
  std::vector<DataKind> all;
  for (const auto& [name, kind] : registry()) all.push_back(kind);
  return all;
}

bool reads_default_text(const std::string& data) {
  const auto found = registry().find(data.substr(0, data.find(':')));
  return found != registry().end() && found->second.default_text;
}

DataSource open_data(const std::string& data, const std::string& path, std::uint64_t seed, std::int64_t global_batch, const std::string& vocabulary) {
  const std::size_t colon = data.find(':');
  const std::string name = data.substr(0, colon);
  const auto found = registry().find(name);
  if (found == registry().end()) throw UsageError("--data " + data + ": there is no data of this name; there is " + joined_keys(registry()));
  return found->second.open({colon == std::string::npos ? "" : data.substr(colon + 1), path, vocabulary, seed, global_batch});
}

}  // namespace thinwire
