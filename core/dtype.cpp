#include "core/dtype.h"

namespace thinwire {

DType parse_dtype(std::string_view name) {
  std::string list;
  for (int i = 0; i <= static_cast<int>(DType::i64); ++i) {
    const auto type = static_cast<DType>(i);
    if (name_of(type) == name) return type;
    list += (list.empty() ? "" : ", ") + std::string(name_of(type));
  }
  throw UsageError("unknown element type `" + std::string(name) + "`: use one of " + list);
}

}  // namespace thinwire
