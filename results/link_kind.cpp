#include "results/link_kind.h"

#include <algorithm>
#include <regex>

namespace thinwire::results {
namespace {

constexpr LinkKind table_of_kinds[] = {
    {.name = "shm", .form = "shm", .by_kernel = false},
    {.name = "none", .form = "none"},
    {.name = "fabric", .form = "fabric", .one_node = false},
    {.name = "netns", .form = "netns:RATE (100mbit, 1gbit, ...)", .named = true, .in_lab = true},
    {.name = "emulated", .form = "emulated:NAME", .named = true, .one_node = false, .by_kernel = false},
};

}  // namespace

std::span<const LinkKind> link_kinds() { return table_of_kinds; }

const LinkKind* kind_of_link(std::string_view link) {
  const std::size_t colon = link.find(':');
  const auto* const found = std::ranges::find_if(table_of_kinds, [&](const LinkKind& kind) { return kind.name == link.substr(0, colon) && kind.named == (colon != std::string_view::npos); });
  return found == std::end(table_of_kinds) ? nullptr : found;
}

std::string link_forms() {
  std::string all;
  for (const LinkKind& kind : table_of_kinds) all += (all.empty() ? "" : &kind == std::end(table_of_kinds) - 1 ? " and " : ", ") + std::string(kind.form);
  return all;
}

std::string wrong_with_link(const std::string& link) {
  if (kind_of_link(link) == nullptr) return "unknown link `" + link + "`: " + link_forms() + " exist";
  // As experiments/lab/launch.sh takes it.
  static const std::regex rated("netns:(0|[1-9][0-9]{0,5})(\\.[0-9]{1,6})?(mbit|gbit)");
  if (link.starts_with("netns:") && !std::regex_match(link, rated)) return "link `" + link + "` has no rate: netns:RATE with RATE as Nmbit or Ngbit, 1mbit or more";
  return "";
}

}  // namespace thinwire::results
