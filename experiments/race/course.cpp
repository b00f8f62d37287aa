#include "experiments/race/course.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "collectives/link/emulated_network.h"
#include "core/error.h"
#include "experiments/study/study_values.h"
#include "results/files/files.h"
#include "results/link_kind.h"

namespace thinwire::race {
namespace {

using sweep::at;
using sweep::table_of;

// What the race itself states for every run, and for those that are trained to the target.
const std::set<std::string> stated = {"learning-rate", "min-lr", "seed", "plan", "resume", "repetition", "schedule-steps"},
                            stated_of_losses = {"learning-rate", "min-lr", "steps", "warmup", "seed", "plan", "eval-interval", "resume", "keep-at", "repetition", "schedule-steps"};

toml::table parsed(const std::string& path) {
  const std::string text = results::read_file(path);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    throw UsageError(path + ":" + std::to_string(e.source().begin.line) + ": " + std::string(e.description()));
  }
}

class CourseReader {
 public:
  explicit CourseReader(std::string path) : path_(std::move(path)), root_(parsed(path_)) {}

  Course course() {
    sweep::require_known(path_, root_, "a course", {"race", "loss", "time", "entrant"});
    const toml::table& race = section("race");
    sweep::require_known(path_, race, "[race]",
                         {"name", "description", "horizon", "longest", "validate_every", "target_at", "target", "warmup", "rates", "tuning_seed", "seeds", "links", "windows", "pair_windows", "midway"});
    Course c;
    c.name = sweep::text_of(path_, race, "name"), c.description = sweep::text_of(path_, race, "description");
    if (c.name.empty()) throw UsageError(at(path_, race) + ": [race] needs a `name`");
    c.horizon = whole(race, "horizon", 1, 100'000'000), c.validate_every = whole(race, "validate_every", 1, c.horizon), c.tuning_seed = whole(race, "tuning_seed", 0, 1 << 30);
    c.longest = race.contains("longest") ? whole(race, "longest", 1, 64) : c.longest;
    c.windows = race.contains("windows") ? whole(race, "windows", 1, 100) : c.windows;
    c.pair_windows = flag(race, "pair_windows", c.pair_windows), c.midway = flag(race, "midway", c.midway);
    c.target = sweep::positive_of(path_, race, "target", 0);
    c.target_at = share(race, "target_at", c.target_at), c.warmup = share(race, "warmup", c.warmup);
    if (c.horizon % (2 * c.validate_every) != 0)
      throw UsageError(at(path_, *race.get("horizon")) + ": a horizon of " + std::to_string(c.horizon) + " steps, which runs take half, whole and doubled, is no multiple of twice validate_every = " +
                       std::to_string(c.validate_every));
    for (const results::ParameterValue& value : values(race, "rates")) c.rates.push_back(number(value, *race.get("rates"), "rates"));
    if (!std::is_sorted(c.rates.begin(), c.rates.end(), std::less_equal<>())) throw UsageError(at(path_, *race.get("rates")) + ": rates must rise, each one once");
    c.seeds = seeds(race, c.tuning_seed);
    for (const results::ParameterValue& value : values(race, "links")) {
      const std::string link = results::to_text(value);
      if (std::ranges::find(c.links, link) != c.links.end()) throw UsageError(at(path_, *race.get("links")) + ": the link " + link + " stands there twice; each window would count as two measurements");
      c.links.push_back(link);
      // Timed cells come last, hours after the first training: what cannot be built is told now.
      try {
        if (const std::string wrong = results::wrong_with_link(c.links.back()); !wrong.empty()) throw UsageError(wrong);
        if (EmulatedLink::is_emulated(c.links.back())) (void)EmulatedLink::parse(c.links.back());
      } catch (const UsageError& error) {
        throw UsageError(at(path_, *race.get("links")) + ": " + error.what());
      }
    }
    c.loss = shape("loss", "step_seconds", stated_of_losses), c.time = shape("time", "cell_seconds", stated);
    read_entrants(c);
    if (c.entrants.empty()) throw UsageError(path_ + ": no [[entrant]]; the first one is the baseline, usually {name = \"dense\"}");
    return c;
  }

  void read_entrants(Course& c) {
    const toml::node* node = root_.get("entrant");
    if (node == nullptr) return;
    for (const toml::table* table : sweep::tables_of(path_, *node, "entrant")) {
      sweep::require_known(path_, *table, "[[entrant]]", {"name", "settings", "rate", "horizons", "seeds", "step_seconds"});
      Entrant e;
      e.name = sweep::text_of(path_, *table, "name"), e.where = at(path_, *table);
      e.rate = sweep::positive_of(path_, *table, "rate", 0), e.step_seconds = sweep::positive_of(path_, *table, "step_seconds", 0);
      if (table->contains("horizons")) e.horizons = whole(*table, "horizons", 1, c.longest);
      if (table->contains("seeds")) e.seeds = seeds(*table, c.tuning_seed);
      if (!e.seeds.empty() && c.entrants.empty()) throw UsageError(e.where + ": the baseline races with the course's seeds; leave `seeds` out");
      if (e.horizons > 1 && e.rate == 0) throw UsageError(e.where + ": `horizons` goes with a `rate` that was chosen over so many; without one both are tuned");
      if (e.horizons > 1 && c.entrants.empty()) throw UsageError(e.where + ": the baseline's runs are one horizon long, to which target and rates belong; leave `horizons` out and set `horizon`");
      if (e.name.empty()) throw UsageError(e.where + ": an [[entrant]] needs a `name`");
      for (const Entrant& other : c.entrants)
        if (other.name == e.name) throw UsageError(e.where + ": there is an entrant `" + e.name + "` already, at " + other.where);
      if (const toml::node* settings = table->get("settings")) e.settings = options(table_of(path_, *settings, "settings"), stated_of_losses);
      c.entrants.push_back(std::move(e));
    }
  }

  void require_entrants_only() const { sweep::require_known(path_, root_, "a file of entrants", {"entrant"}); }

 private:
  const toml::table& section(const std::string& name) const {
    const toml::node* node = root_.get(name);
    if (node == nullptr) throw UsageError(path_ + ": no [" + name + "]");
    return table_of(path_, *node, name);
  }
  const toml::node& present(const toml::table& table, const char* key) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) throw UsageError(at(path_, table) + ": `" + key + "` is missing");
    return *node;
  }
  std::vector<results::ParameterValue> values(const toml::table& table, const char* key) const { return sweep::list(path_, present(table, key), key); }
  double number(const results::ParameterValue& value, const toml::node& where, const char* key) const {
    results::Parameters one;
    one.set(key, value);
    const double x = one.number(key);
    if (!(x >= 0) || !std::isfinite(x)) throw UsageError(at(path_, where) + ": `" + key + "` has a value that is no positive number");
    return x;
  }
  bool flag(const toml::table& table, const char* key, bool otherwise) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return otherwise;
    if (!node->is_boolean()) throw UsageError(at(path_, *node) + ": `" + key + "` is true or false");
    return node->value_or(otherwise);
  }
  std::vector<int> seeds(const toml::table& table, int tuning) const {
    const std::string where = at(path_, present(table, "seeds"));
    std::vector<int> all;
    for (const results::ParameterValue& value : values(table, "seeds")) {
      const double seed = number(value, *table.get("seeds"), "seeds");
      if (seed > 1 << 30 || seed != std::floor(seed)) throw UsageError(where + ": a seed must be a whole number from 0 to " + std::to_string(1 << 30));
      all.push_back(static_cast<int>(seed));
    }
    if (std::set<int>(all.begin(), all.end()).size() != all.size()) throw UsageError(where + ": a seed stands there twice");
    if (std::ranges::count(all, tuning) > 0)
      throw UsageError(where + ": seed " + std::to_string(tuning) + " chooses learning rates (tuning_seed) and would race under what it chose; take another");
    return all;
  }
  int whole(const toml::table& table, const char* key, std::int64_t least, std::int64_t most) const {
    const toml::node& node = present(table, key);
    const std::int64_t value = node.value_or(std::int64_t{-1});
    if (!node.is_integer() || value < least || value > most)
      throw UsageError(at(path_, node) + ": `" + key + "` must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<int>(value);
  }
  double share(const toml::table& table, const char* key, double otherwise) const {
    const double value = sweep::positive_of(path_, table, key, otherwise);
    if (value > 1) throw UsageError(at(path_, *table.get(key)) + ": `" + key + "` is a part of a run, at most 1");
    return value;
  }
  results::Parameters options(const toml::table& table, const std::set<std::string>& refused) const {
    for (const auto& [key, node] : table)
      if (refused.contains(std::string(key.str()))) throw UsageError(at(path_, node) + ": `" + std::string(key.str()) + "` is stated by the race for every run");
    return sweep::parameters_of(path_, table);
  }
  RunShape shape(const std::string& name, const char* seconds, const std::set<std::string>& refused) const {
    const toml::table& table = section(name);
    sweep::require_known(path_, table, "[" + name + "]", {"ranks", "parameters", seconds});
    RunShape s;
    s.seconds = sweep::positive_of(path_, table, seconds, 0);
    s.ranks = table.contains("ranks") ? whole(table, "ranks", 1, 100'000) : 1;
    if (const toml::node* parameters = table.get("parameters")) s.parameters = options(table_of(path_, *parameters, name + ".parameters"), refused);
    return s;
  }

  std::string path_;
  toml::table root_;
};

}  // namespace

results::Parameters RunShape::with(const Entrant& entrant) const {
  results::Parameters all = parameters;
  for (const auto& [name, value] : entrant.settings.values()) all.set(name, value);
  return all;
}

int Course::longest_run() const {
  int steps = horizon;
  while (2 * steps <= longest * horizon) steps *= 2;
  return steps;
}

std::string Course::registered_text() const {
  results::Parameters p;
  p.set("horizon", horizon), p.set("validate_every", validate_every), p.set("target_at", target_at), p.set("target", target), p.set("warmup", warmup), p.set("baseline_rate", baseline().rate), p.set("tuning_seed", tuning_seed);
  p.set("least_rate", least_rate);
  std::string of_rates, of_seeds;
  for (const double rate : rates) of_rates += results::to_text(rate) + " ";
  for (const int seed : seeds) of_seeds += std::to_string(seed) + " ";
  p.set("rates", of_rates), p.set("seeds", of_seeds), p.set("ranks", loss.ranks);
  return "{\"baseline\":" + baseline().settings.canonical_json() + ",\"loss\":" + loss.parameters.canonical_json() + ",\"race\":" + p.canonical_json() + "}";
}

Course read_course(const std::string& path) { return CourseReader(path).course(); }

void add_entrants(Course& course, const std::string& path) {
  CourseReader reader(path);
  reader.require_entrants_only();
  reader.read_entrants(course);
}

}  // namespace thinwire::race
