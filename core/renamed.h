// Words that have another name now (docs/renamed.md): whoever still writes the old one is told the new one.
#pragma once

#include <span>
#include <string_view>

namespace thinwire {

struct RenamedWord {
  std::string_view old_name, new_name;
};
/// Flags without dashes, keys of TOML files, traffic classes.
std::span<const RenamedWord> renamed_words();
/// The name of today; empty where `name` is none of old.
std::string_view renamed_to(std::string_view name);

}  // namespace thinwire
