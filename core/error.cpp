#include "core/error.h"

#include <algorithm>
#include <vector>

#include "core/renamed.h"

namespace thinwire {

Error::Error(ExitCode code, std::string message) : std::runtime_error(std::move(message)), code_(code) {}

namespace detail {
void throw_internal(const char* expression, const char* file, int line, const std::string& message) {
  std::string text = "internal error: `" + std::string(expression) + "` does not hold at " + file + ":" +
                     std::to_string(line);
  if (!message.empty()) text += " (" + message + ")";
  throw RuntimeFailure(text + ". This is a bug of thinwire: please report it with the command line.");
}
}  // namespace detail

static std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, const std::string* begin, const std::string* end) {
  for (const RenamedWord& word : renamed_words())
    if (word.old_name == name && std::find(begin, end, word.new_name) != end) return std::string(word.new_name);
  const std::string* best = begin;
  for (const std::string* it = begin; it != end; ++it)
    if (edit_distance(name, *it) < edit_distance(name, *best)) best = it;
  return begin == end ? std::string() : *best;
}

}  // namespace thinwire
