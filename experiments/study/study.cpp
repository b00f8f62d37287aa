#include "experiments/study/study.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "experiments/study/study_values.h"
#include "results/files/files.h"

namespace thinwire::sweep {

namespace {

struct Reader {
  Study study;
  Parameters defaults;
  std::map<std::string, Axis> sets;
  std::vector<std::string> open_files;  // guards against includes in a circle

  static toml::table parse(const std::string& path, std::string& text) {
    text = results::read_file(path);
    try {
      return toml::parse(text, path);
    } catch (const toml::parse_error& e) {
      throw UsageError(path + ":" + std::to_string(e.source().begin.line) + ": " +
                       std::string(e.description()));
    }
  }

  void read(const std::string& path, bool is_main) {
    if (std::find(open_files.begin(), open_files.end(), path) != open_files.end())
      throw UsageError(path + ": includes itself, directly or through another file");
    open_files.push_back(path);
    std::string text;
    const toml::table root = parse(path, text);
    require_known(path, root, "a study file",
                  {"study", "include", "parameters", "sets", "grid", "axes", "zip", "exclude", "override"});
    if (const toml::node* include = root.get("include"))
      for (const ParameterValue& name : list(path, *include, "include"))
        read((std::filesystem::path(path).parent_path() / results::to_text(name)).lexically_normal().string(), false);
    const toml::node* header = root.get("study");
    const toml::table none;
    const toml::table& head = header == nullptr ? none : table_of(path, *header, "study");
    require_known(
        path, head, "[study]",
        {"name", "description", "program", "ranks", "link", "omp_threads", "timeout", "repetitions", "seeds", "repeat", "minutes", "memory_gib", "tags"});
    if (is_main) {
      study.text = text;
      study.path = path;
      study.name = text_of(path, head, "name");
      study.description = text_of(path, head, "description");
      if (study.name.empty()) throw UsageError(path + ": [study] needs a `name`");
      if (study.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
          std::string::npos)
        throw UsageError(path + ": the study's name `" + study.name +
                         "` becomes part of file names; use letters, digits, _ and -");
    }
    if (const toml::node* fixed = root.get("parameters")) {
      const Parameters given = parameters_of(path, table_of(path, *fixed, "parameters"));
      for (const auto& [name, value] : given.values()) defaults.set(name, value);
    }
    if (const toml::node* named = root.get("sets"))
      for (const auto& [name, node] : table_of(path, *named, "sets"))
        sets[std::string(name.str())] = zip_of(path, table_of(path, node, "sets." + std::string(name.str())));
    // A study of one grid may spell it at the top of the file.
    if (!text_of(path, head, "program").empty())
      study.grids.push_back(grid_of(path, root, &head));
    else if (const std::string key = first_of(head, {"ranks", "link", "omp_threads", "timeout", "repetitions", "seeds", "repeat", "minutes", "memory_gib", "tags"}); !key.empty())
      throw UsageError(at(path, *head.get(key)) + ": `" + key + "` in [study] would reach no grid: it is for studies of one grid, whose [study] names the program; put it into each [[grid]]");
    else if (root.contains("axes") || root.contains("zip"))
      throw UsageError(
          path + ": axes at the top of the file need [study] program = \"...\"; or put them into a [[grid]]");
    if (const toml::node* grids = root.get("grid"))
      for (const toml::table* grid : tables_of(path, *grids, "grid"))
        study.grids.push_back(grid_of(path, *grid, nullptr));
    open_files.pop_back();
  }

  // `head` holds program, ranks, link, ... when they are not in the grid's own table (single-grid studies).
  Grid grid_of(const std::string& path, const toml::table& table, const toml::table* head) {
    if (head == nullptr)
      require_known(path, table, "[[grid]]",
                    {"name", "program", "ranks", "link", "omp_threads", "timeout", "repetitions", "seeds", "repeat", "minutes", "memory_gib",
                     "tags", "without", "parameters", "axes", "zip", "exclude", "override"});
    const toml::table& own = head != nullptr ? *head : table;
    Grid grid;
    grid.where = at(path, table);
    grid.program = text_of(path, own, "program");
    grid.name = text_of(path, own, "name");
    if (grid.name.empty()) grid.name = grid.program;
    if (grid.program.empty()) throw UsageError(grid.where + ": a grid needs a `program`");
    if (grid.program.find('/') != std::string::npos)
      throw UsageError(grid.where + ": program `" + grid.program +
                       "` must be a plain name; its folder is given by --bin");
    grid.ranks = text_of(path, own, "ranks");
    if (const toml::node* threads = own.get("omp_threads"))
      grid.omp_threads = static_cast<int>(threads->value_or(std::int64_t{-1}));
    if (grid.omp_threads < 0)
      throw UsageError(grid.where + ": omp_threads must be a whole number, 0 or more");
    grid.timeout = positive_of(path, own, "timeout", grid.timeout);
    grid.minutes = positive_of(path, own, "minutes", 0);
    grid.memory_gib = positive_of(path, own, "memory_gib", 0);
    if (const toml::node* tags = own.get("tags")) grid.tags = tags_of(path, *tags);
    grid.fixed = defaults;
    if (const toml::node* without = table.get("without"); without != nullptr && head == nullptr)
      for (const ParameterValue& name : list(path, *without, "without")) {
        if (!defaults.has(results::to_text(name)))
          throw UsageError(at(path, *without) + ": without = `" + results::to_text(name) +
                           "`: [parameters] of the study has no such name");
        grid.fixed.erase(results::to_text(name));
      }
    std::set<std::string> here;  // names this grid itself gives a value to: each only once
    const auto claim = [&](const std::string& name, const toml::node& node) {
      if (!here.insert(name).second)
        throw UsageError(at(path, node) + ": `" + name +
                         "` is given twice in one grid (parameters, axes, zip, or keys of the grid)");
      grid.fixed.erase(name);
    };
    if (const toml::node* fixed = table.get("parameters"); fixed != nullptr && head == nullptr) {
      const Parameters given = parameters_of(path, table_of(path, *fixed, "parameters"));
      for (const auto& [name, value] : given.values()) {
        claim(name, *fixed);
        grid.fixed.set(name, value);
      }
    }
    if (const toml::node* node = own.get("repetitions")) {
      claim("repetitions", *node);
      grid.fixed.set("repetitions", scalar(path, *node, "repetitions"));
    }
    // Slowest: an interrupted study holds whole passes, and slow drifts of the machine spread over all cells alike.
    if (Axis seeds = seeds_of(path, own); !seeds.names.empty()) {
      const toml::node& node = *(own.contains("seeds") ? own.get("seeds") : own.get("repeat"));
      claim("seed", node);
      require_distinct(seeds, at(path, node));
      grid.axes.push_back(std::move(seeds));
    }
    if (const toml::node* link = own.get("link")) add_axis(path, grid, "link", *link, claim);
    if (const toml::node* axes = table.get("axes")) {
      const toml::table& named = table_of(path, *axes, "axes");
      for (const std::string& name : keys_in_order(named))
        add_axis(path, grid, name, *named.get(name), claim);
    }
    if (const toml::node* zips = table.get("zip"))
      for (const toml::table* zip : tables_of(path, *zips, "zip")) {
        Axis axis = zip->contains("use") ? named_set(path, *zip) : zip_of(path, *zip);
        for (const std::string& name : axis.names) claim(name, *zip);
        require_distinct(axis, at(path, *zip));
        grid.axes.push_back(std::move(axis));
      }
    if (const toml::node* excludes = table.get("exclude"))
      for (const toml::table* exclude : tables_of(path, *excludes, "exclude"))
        grid.excludes.push_back(condition_of(path, *exclude));
    if (const toml::node* overrides = table.get("override"))
      for (const toml::table* entry : tables_of(path, *overrides, "override"))
        grid.overrides.push_back(override_of(path, *entry));
    if (!grid.ranks.empty() && here.contains("ranks"))
      throw UsageError(grid.where + ": `ranks` is both a key of the grid and an axis or parameter; keep one");
    require_known_conditions(grid);
    return grid;
  }

  static std::string first_of(const toml::table& table, const std::vector<std::string>& keys) {
    for (const std::string& key : keys)
      if (table.contains(key)) return key;
    return "";
  }

  static std::vector<std::string> tags_of(const std::string& path, const toml::node& node) {
    std::vector<std::string> tags;
    for (const ParameterValue& value : list(path, node, "tags")) {
      tags.push_back(results::to_text(value));
      if (tags.back().empty() || tags.back().find_first_of(" =*?!") != std::string::npos)
        throw UsageError(at(path, node) + ": the tag `" + tags.back() + "` needs a name without blanks and = ! * ?, so that --where can ask for it");
    }
    return tags;
  }

  template <typename Claim>
  void add_axis(const std::string& path, Grid& grid, const std::string& name, const toml::node& node,
                const Claim& claim) {
    Axis axis{{name}, {}};
    for (const ParameterValue& value : list(path, node, name)) axis.points.push_back({value});
    claim(name, node);
    require_distinct(axis, at(path, node));
    grid.axes.push_back(std::move(axis));
  }

  Axis named_set(const std::string& path, const toml::table& zip) {
    require_known(path, zip, "[[zip]] with `use`", {"use"});
    const std::string name = text_of(path, zip, "use");
    if (sets.contains(name)) return sets[name];
    std::vector<std::string> names;
    for (const auto& [known, axis] : sets) names.push_back(known);
    throw UsageError(
        at(path, zip) + ": no set is called `" + name + "`" +
        (names.empty()
             ? "; none is defined"
             : "; did you mean `" + nearest_name(name, names.data(), names.data() + names.size()) + "`?"));
  }

  Override override_of(const std::string& path, const toml::table& table) {
    require_known(path, table, "[[override]]", {"when", "set"});
    if (!table.contains("when") || !table.contains("set"))
      throw UsageError(at(path, table) + ": an override needs `when` and `set`");
    return {condition_of(path, table_of(path, *table.get("when"), "when")),
            parameters_of(path, table_of(path, *table.get("set"), "set"))};
  }

  // A condition on a name that no cell has would silently never hold.
  static void require_known_conditions(const Grid& grid) {
    std::vector<std::string> names = {"link", "ranks"};  // not minutes, memory_gib: they say nothing about what a cell is
    for (const auto& [name, value] : grid.fixed.values()) names.push_back(name);
    for (const Axis& axis : grid.axes) names.insert(names.end(), axis.names.begin(), axis.names.end());
    const auto check = [&](const Condition& condition) {
      for (const auto& [name, values] : condition.allowed)
        if (std::find(names.begin(), names.end(), name) == names.end())
          throw UsageError(condition.where + ": no cell of the grid `" + grid.name + "` has `" + name +
                           "`; did you mean `" +
                           nearest_name(name, names.data(), names.data() + names.size()) + "`?");
    };
    for (const Condition& condition : grid.excludes) check(condition);
    for (const Override& entry : grid.overrides) check(entry.when);
  }
};

}  // namespace

Study read_study(const std::string& path) {
  Reader reader;
  reader.read(path, true);
  if (reader.study.grids.empty())
    throw UsageError(path + ": the study has no grid: add a [[grid]] or [study] program");
  return std::move(reader.study);
}

}  // namespace thinwire::sweep
