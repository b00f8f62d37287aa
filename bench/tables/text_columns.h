// A table for people as a list of columns: title, unit, width and the text of a row's cell, one entry each.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace thinwire::bench {

template <typename Row>
struct TextColumn {
  const char* title;
  const char* unit;  ///< below the title
  int width;         ///< characters at least; negative: flush left
  std::function<std::string(const Row&)> text;
};

/// "-" for what was not measured.
inline std::string fixed_text(double value, int precision) {
  if (std::isnan(value)) return "-";
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", precision, value);
  return text;
}
inline std::string scientific_text(double value) {
  if (std::isnan(value)) return "-";
  char text[40];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

inline std::string padded(const std::string& text, int width) {
  const auto wanted = static_cast<std::size_t>(std::abs(width));
  const std::string blanks(text.size() < wanted ? wanted - text.size() : 0, ' ');
  return width < 0 ? text + blanks : blanks + text;
}

/// Two lines, titles and units, with nccl-tests' `#` in front of all that is not data.
template <typename Row>
void print_titles(std::FILE* to, const std::vector<TextColumn<Row>>& columns) {
  std::string titles = "#", units = "#";
  for (const auto& column : columns) titles += " " + padded(column.title, column.width), units += " " + padded(column.unit, column.width);
  std::fprintf(to, "%s\n%s\n", titles.c_str(), units.c_str());
}

/// One line, without its end.
template <typename Row>
void print_cells(std::FILE* to, const std::vector<TextColumn<Row>>& columns, const Row& row) {
  std::fputc(' ', to);
  for (const auto& column : columns) std::fprintf(to, " %s", padded(column.text(row), column.width).c_str());
}

}  // namespace thinwire::bench
