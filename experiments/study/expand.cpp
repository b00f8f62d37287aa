#include "experiments/study/expand.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "results/files/tuned_products.h"
#include "results/link_kind.h"

namespace thinwire::sweep {

namespace {

constexpr int most_ranks = 4096;
constexpr std::size_t most_cells = 200'000;  ///< of a grid, before exclusions: of a second each, two days

/// Of factors that a user names; beyond what 64 bits hold, their largest number.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

std::int64_t factor(const Grid& grid, const Parameters& parameters, const std::string& name) {
  std::int64_t number = 0;
  if (const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      error == std::errc() && end == name.data() + name.size())
    return number;
  if (parameters.has(name)) return parameters.integer(name);
  std::vector<std::string> names;
  for (const auto& [known, value] : parameters.values()) names.push_back(known);
  throw UsageError(grid.where + ": ranks = \"" + grid.ranks + "\" names `" + name +
                   "`, which is no parameter of the grid; did you mean `" +
                   nearest_name(name, names.data(), names.data() + names.size()) + "`?");
}

// tp*pp*dp of those that the cell has.
std::int64_t ranks_of_layout(const Parameters& parameters) {
  std::int64_t ranks = 1;
  for (const char* name : {"tp", "pp", "dp"})
    if (parameters.has(name)) ranks = product(ranks, parameters.integer(name));
  return ranks;
}

int ranks_of(const Grid& grid, Parameters& parameters) {
  // An expression over the layout ("tp*pp", "2*dp") is the author's word on it; a plain number is held
  // against it.
  bool follows_layout = false;
  const std::int64_t layout = ranks_of_layout(parameters);
  std::int64_t ranks = layout;
  if (parameters.has("ranks")) {
    ranks = parameters.integer("ranks");
    parameters.erase("ranks");
  } else if (!grid.ranks.empty()) {
    ranks = 1;
    for (std::size_t from = 0; from <= grid.ranks.size();) {
      const std::size_t to = std::min(grid.ranks.find('*', from), grid.ranks.size());
      std::string name = grid.ranks.substr(from, to - from);
      std::erase(name, ' ');
      ranks = product(ranks, factor(grid, parameters, name));
      follows_layout |= name == "tp" || name == "pp" || name == "dp";
      from = to + 1;
    }
  }
  if (ranks < 1 || ranks > most_ranks)
    throw UsageError(grid.where + ": the grid `" + grid.name + "` asks for " + std::to_string(ranks) +
                     " ranks; 1 to " + std::to_string(most_ranks) + " are possible");
  if (!follows_layout && layout > 1 && layout != ranks)
    throw UsageError(grid.where + ": contradictory grid `" + grid.name + "`: the layout (tp*pp*dp) of " +
                     parameters.canonical_json() + " needs " + std::to_string(layout) +
                     " ranks, but ranks is " + std::to_string(ranks));
  return static_cast<int>(ranks);
}

std::string link_of(const Grid& grid, Parameters& parameters) {
  std::string link = "shm";
  if (parameters.has("link")) {
    link = parameters.text("link");
    parameters.erase("link");
  }
  if (const std::string wrong = results::wrong_with_link(link); !wrong.empty()) throw UsageError(grid.where + ": " + wrong);
  return link;
}

// What an axis, a zip or an override says of a cell's needs counts before the grid's own word. No part of its identity.
double need_of(const Grid& grid, Parameters& parameters, const char* name, double of_grid) {
  if (!parameters.has(name)) return of_grid;
  const double value = parameters.number(name);
  if (!(value > 0)) throw UsageError(grid.where + ": " + name + " must be a positive number");
  parameters.erase(name);
  return value;
}

bool glob(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// The name in front of a codec's parameters or a link's rate counts as well as the whole.
bool value_matches(const std::string& pattern, const std::string& text) {
  return glob(pattern, text) || glob(pattern, text.substr(0, text.find_first_of(":+")));
}

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(' ');
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(' ') - from + 1);
}

void add_tags(std::vector<std::string>& tags, const std::vector<std::string>& more) {
  for (const std::string& tag : more)
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
}

struct Clause {
  std::string name, pattern;
  bool negated = false;
};

Clause clause_of(const std::string& text, const std::string& where) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw UsageError("--where '" + where + "': `" + text + "` is not name=value or name!=value");
  const bool negated = text[equals - 1] == '!';
  return {trimmed(text.substr(0, equals - (negated ? 1 : 0))), trimmed(text.substr(equals + 1)), negated};
}

std::vector<Clause> clauses_of(const std::string& where) {
  std::vector<Clause> clauses;
  for (std::size_t from = 0;;) {
    const std::size_t to = where.find(" and ", from);
    clauses.push_back(
        clause_of(trimmed(where.substr(from, to == std::string::npos ? to : to - from)), where));
    if (to == std::string::npos) return clauses;
    from = to + 5;
  }
}

}  // namespace

std::vector<PlannedCell> expand(const Study& study) {
  std::vector<PlannedCell> cells;
  std::map<std::string, std::size_t> seen;
  for (const Grid& grid : study.grids) {
    std::size_t kept = 0, points = 1;
    for (const Axis& axis : grid.axes) {
      points *= axis.points.size();
      if (points > most_cells)
        throw UsageError(grid.where + ": the axes of the grid `" + grid.name + "` cross to more than " + std::to_string(most_cells) + " cells; let some go together ([[zip]]), or split the study");
    }
    std::vector<std::size_t> index(grid.axes.size(), 0);
    for (bool more = true; more;) {
      Parameters parameters = grid.fixed;
      for (std::size_t a = 0; a < grid.axes.size(); ++a)
        for (std::size_t k = 0; k < grid.axes[a].names.size(); ++k)
          parameters.set(grid.axes[a].names[k], grid.axes[a].points[index[a]][k]);
      // Like an odometer: the last axis turns fastest.
      more = false;
      for (std::size_t a = grid.axes.size(); a-- > 0 && !more;) {
        more = ++index[a] < grid.axes[a].points.size();
        if (!more) index[a] = 0;
      }
      if (std::any_of(grid.excludes.begin(), grid.excludes.end(),
                      [&](const Condition& c) { return c.matches(parameters); }))
        continue;
      const Parameters before = parameters;
      for (const Override& entry : grid.overrides)
        if (entry.when.matches(before))
          for (const auto& [name, value] : entry.set.values()) parameters.set(name, value);
      PlannedCell cell;
      cell.grid = grid.name;
      cell.program = grid.program;
      cell.omp_threads = grid.omp_threads;
      cell.timeout = grid.timeout;
      cell.tags = grid.tags;
      cell.minutes = need_of(grid, parameters, "minutes", grid.minutes);
      cell.memory_gib = need_of(grid, parameters, "memory_gib", grid.memory_gib);
      cell.ranks = ranks_of(grid, parameters);
      cell.link = link_of(grid, parameters);
      cell.parameters = std::move(parameters);
      cell.cell_id = results::cell_id(cell.program, cell.ranks, cell.link, cell.parameters);
      ++kept;
      if (const auto [at, is_new] = seen.try_emplace(cell.cell_id, cells.size()); is_new)
        cells.push_back(std::move(cell));
      else if (PlannedCell& first = cells[at->second]; first.omp_threads == cell.omp_threads)
        add_tags(first.tags, grid.tags);
      else
        throw UsageError(grid.where + ": the grid `" + grid.name + "` has a cell that `" + first.grid + "` has with other omp_threads (" + std::to_string(cell.omp_threads) + ", not " + std::to_string(first.omp_threads) +
                         "), which do not tell cells apart; measure one of them in another folder");
    }
    if (kept == 0)
      throw UsageError(grid.where + ": contradictory grid `" + grid.name + "`: its exclusions leave no cell");
  }
  return cells;
}

std::vector<PlannedCell> filter(std::vector<PlannedCell> cells, const std::string& where) {
  if (trimmed(where).empty()) return cells;
  const std::vector<Clause> clauses = clauses_of(where);
  std::set<std::string> known = {"program", "grid", "link", "ranks", "cell_id"};
  std::set<std::string> tags;
  for (const PlannedCell& cell : cells) {
    for (const auto& [name, value] : cell.parameters.values()) known.insert(name);
    tags.insert(cell.tags.begin(), cell.tags.end());
  }
  if (!tags.empty()) known.insert("tag");
  const std::vector<std::string> names(known.begin(), known.end());
  for (const Clause& clause : clauses)
    if (!known.contains(clause.name))
      throw UsageError("--where '" + where + "': no cell has `" + clause.name + "`; did you mean `" +
                       nearest_name(clause.name, names.data(), names.data() + names.size()) + "`?");
  const std::vector<std::string> tag_names(tags.begin(), tags.end());
  for (const Clause& clause : clauses)
    if (clause.name == "tag" && clause.pattern.find_first_of("*?[") == std::string::npos && !tags.contains(clause.pattern))
      throw UsageError("--where '" + where + "': no cell has the tag `" + clause.pattern + "`; did you mean `" +
                       nearest_name(clause.pattern, tag_names.data(), tag_names.data() + tag_names.size()) + "`?");
  const auto holds = [](const PlannedCell& cell, const Clause& clause) {
    if (clause.name == "cell_id") return cell.cell_id.starts_with(clause.pattern) != clause.negated;
    if (clause.name == "tag")
      return std::any_of(cell.tags.begin(), cell.tags.end(), [&](const std::string& tag) { return glob(clause.pattern, tag); }) != clause.negated;
    std::string text;
    if (clause.name == "program")
      text = cell.program;
    else if (clause.name == "grid")
      text = cell.grid;
    else if (clause.name == "link")
      text = cell.link;
    else if (clause.name == "ranks")
      text = std::to_string(cell.ranks);
    else if (cell.parameters.has(clause.name))
      text = cell.parameters.text(clause.name);
    else
      return clause.negated;
    return value_matches(clause.pattern, text) != clause.negated;
  };
  std::erase_if(cells, [&](const PlannedCell& cell) {
    return !std::all_of(clauses.begin(), clauses.end(),
                        [&](const Clause& clause) { return holds(cell, clause); });
  });
  return cells;
}

std::vector<Launch> group_into_launches(const std::vector<PlannedCell>& cells) {
  std::vector<Launch> launches;
  std::map<std::tuple<std::string, std::string, int, int, std::string>, std::size_t> at;
  for (const PlannedCell& cell : cells) {
    // A process multiplies with one library from start to end.
    const std::string products = cell.parameters.has(results::product_library_parameter) ? cell.parameters.text(results::product_library_parameter) : "";
    const auto [found, is_new] = at.try_emplace({cell.program, cell.link, cell.ranks, cell.omp_threads, products}, launches.size());
    if (is_new) launches.push_back({cell.program, cell.link, cell.ranks, cell.omp_threads, cell.timeout, {}});
    Launch& launch = launches[found->second];
    launch.timeout = std::max(launch.timeout, cell.timeout);
    launch.cells.push_back(cell);
  }
  return launches;
}

namespace {
// Fisher-Yates; the library's shuffle differs between implementations.
template <typename T>
void shuffle_vector(std::vector<T>& values, const Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i, i)]);
}
}  // namespace

void shuffle(std::vector<Launch>& launches, std::uint64_t seed) {
  shuffle_vector(launches, Random(seed, "launches"));
  for (Launch& launch : launches) shuffle_vector(launch.cells, Random(seed, launch.cells.front().cell_id));
}

}  // namespace thinwire::sweep
