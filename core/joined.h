// A list of names as one text: "a, b, c".
#pragma once

#include <functional>
#include <ranges>
#include <string>
#include <string_view>

namespace thinwire {

/// The names one after another, `between` before each that follows some text: an empty name at the front leaves no trace. "" for no names.
/// text(element) is the name of an element that is none itself, as text: a function, or a pointer to a member such as &BenchOption::name.
template <std::ranges::input_range Names, class Text = std::identity>
std::string joined(const Names& names, std::string_view between = ", ", Text text = {}) {
  std::string all;
  for (const auto& name : names) {
    if (!all.empty()) all += between;
    all += std::string_view(std::invoke(text, name));
  }
  return all;
}

/// The keys of a map, joined.
template <class Map>
std::string joined_keys(const Map& map, std::string_view between = ", ") {
  return joined(map, between, &Map::value_type::first);
}

}  // namespace thinwire
