#include "experiments/study/machine.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/joined.h"
#include "results/files/files.h"
#include "results/link_kind.h"
#include "thinwire_version.h"

namespace thinwire::sweep {

namespace fs = std::filesystem;

namespace {

/// Of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" and "days-hours:minutes:seconds", as sbatch reads them; nothing of other words ("UNLIMITED", "").
std::optional<double> seconds_of_slurm_time(const std::string& text) {
  std::vector<double> fields(1, 0.0);
  bool digits = false, days = false;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      fields.back() = 10 * fields.back() + (c - '0'), digits = true;
      continue;
    }
    if (!digits || !((c == '-' && fields.size() == 1) || c == ':')) return std::nullopt;
    days |= c == '-';
    fields.push_back(0.0), digits = false;
  }
  if (!digits || fields.size() > (days ? 4u : 3u)) return std::nullopt;
  constexpr double of_days[] = {86400, 3600, 60, 1}, of_hours[] = {3600, 60, 1}, of_minutes[] = {60, 1};
  const double* const units = days ? of_days : fields.size() == 3 ? of_hours : of_minutes;
  double seconds = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) seconds += fields[i] * units[i];
  return seconds;
}


// One table of the file: typed values by key, and at the end an error for every key that nobody asked for.
class Section {
 public:
  Section(const toml::table& table, std::string name, std::string file)
      : table_(table), name_(std::move(name)), file_(std::move(file)) {}

  void text(const char* key, std::string& value) { get<std::string>(key, value, "text"); }
  void flag(const char* key, bool& value) { get<bool>(key, value, "true or false"); }
  void number(const char* key, int& value, int least) {
    std::int64_t n = value;
    const toml::node* node = get<std::int64_t>(key, n, "a whole number");
    if (node != nullptr && (n < least || n > 1'000'000))
      throw UsageError(at(*node) + "`" + key + "` = " + std::to_string(n) + " must be from " + std::to_string(least) +
                       " to 1000000");
    value = static_cast<int>(n);
  }
  void positive(const char* key, double& value) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_number() || !(*node->value<double>() > 0))
      throw UsageError(at(*node) + "`" + key + "` must be a number above 0");
    value = *node->value<double>();
  }
  void texts(const char* key, std::vector<std::string>& values) { list<std::string>(key, values, "a list of texts"); }
  void numbers(const char* key, std::vector<int>& values) {
    std::vector<std::int64_t> found(values.begin(), values.end());
    list<std::int64_t>(key, found, "a list of whole numbers");
    values.assign(found.begin(), found.end());
  }
  /// name = "value" of any name
  void environment(const char* key, std::map<std::string, std::string>& values) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::table* table = node->as_table();
    if (table == nullptr) throw UsageError(at(*node) + "`" + key + "` must be a table of NAME = \"value\"");
    for (const auto& [name, value] : *table) {
      const std::string text(name.str());
      const bool is_name = !text.empty() && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
                                                std::string::npos && !(text[0] >= '0' && text[0] <= '9');
      if (!is_name) throw UsageError(at(value) + "`" + text + "` is no name of an environment variable");
      if (!value.is_string()) throw UsageError(at(value) + "the value of " + text + " must be text (in quotes)");
      values[text] = value.value_or(std::string());
    }
  }
  const toml::node* find(const char* key) {
    known_.push_back(key);
    return table_.get(key);
  }
  std::string at(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line) + ": ";
  }
  void refuse_unknown() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      throw UsageError(at(node) + "unknown key `" + name + "` in " + name_ + "; did you mean `" +
                       nearest_name(name, known_.data(), known_.data() + known_.size()) + "`? Valid: " + joined(known_));
    }
  }

 private:
  template <typename T, typename V>
  const toml::node* get(const char* key, V& value, const char* kind) {
    const toml::node* node = find(key);
    if (node == nullptr) return nullptr;
    if (!node->is<T>()) throw UsageError(at(*node) + "`" + key + "` must be " + kind);
    value = *node->value<T>();
    return node;
  }
  template <typename T>
  void list(const char* key, std::vector<T>& values, const char* kind) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) throw UsageError(at(*node) + "`" + key + "` must be " + kind);
    values.clear();
    for (const toml::node& element : *array) {
      if (!element.is<T>()) throw UsageError(at(element) + "`" + key + "` must be " + kind);
      values.push_back(*element.value<T>());
    }
  }

  const toml::table& table_;
  std::string name_, file_;
  std::vector<std::string> known_;
};

class MachineReader {
 public:
  explicit MachineReader(std::string path) : path_(std::move(path)) {}

  Machine read(const toml::table& root) {
    Machine m;
    m.name = fs::path(path_).stem().string();
    m.launcher_options.clear();
    Section top(root, "a machine profile", path_);
    top.text("name", m.name);
    top.text("description", m.description);
    top.texts("modules", m.modules);
    top.texts("setup", m.setup);
    top.environment("environment", m.environment);
    if (const toml::table* table = table_of(top, "launcher")) launcher(*table, m);
    if (const toml::table* table = table_of(top, "node")) node(*table, m);
    if (const toml::table* table = table_of(top, "slurm")) slurm(*table, m.slurm);
    links(top, m);
    top.refuse_unknown();
    return m;
  }

 private:
  const toml::table* table_of(Section& section, const char* key) {
    const toml::node* node = section.find(key);
    if (node == nullptr) return nullptr;
    if (const toml::table* table = node->as_table()) return table;
    throw UsageError(section.at(*node) + "`" + key + "` must be a table: [" + key + "]");
  }

  void launcher(const toml::table& table, Machine& m) {
    Section section(table, "[launcher]", path_);
    std::string kind = "mpirun";
    section.text("kind", kind);
    if (kind != "mpirun" && kind != "srun")
      throw UsageError(section.at(*table.get("kind")) + "launcher `" + kind + "` is none of: mpirun, srun");
    m.launcher = kind == "srun" ? Machine::Launcher::srun : Machine::Launcher::mpirun;
    section.texts("options", m.launcher_options);
    section.refuse_unknown();
  }

  void node(const toml::table& table, Machine& m) {
    Section section(table, "[node]", path_);
    section.number("ranks", m.ranks_per_node, 0);
    section.number("cores", m.cores_per_node, 0);
    section.number("gpus", m.gpus_per_node, 0);
    section.numbers("gpu_of_local_rank", m.gpu_of_local_rank);
    for (const int gpu : m.gpu_of_local_rank)
      if (gpu < 0 || gpu >= m.gpus_per_node)
        throw UsageError(section.at(*table.get("gpu_of_local_rank")) + "GPU " + std::to_string(gpu) +
                         " does not exist: a node has " + std::to_string(m.gpus_per_node) + " (`gpus`)");
    section.refuse_unknown();
  }

  void slurm(const toml::table& table, SlurmSettings& s) {
    s.present = true;
    Section section(table, "[slurm]", path_);
    section.text("partition", s.partition);
    section.text("account", s.account);
    section.text("qos", s.qos);
    section.text("time_limit", s.time_limit);
    section.number("array_width", s.array_width, 1);
    section.positive("minutes_per_job", s.minutes_per_job);
    section.positive("cell_seconds", s.cell_seconds);
    section.flag("requeue", s.requeue);
    section.number("signal_lead", s.signal_lead, 20);
    section.texts("options", s.options);
    section.refuse_unknown();
    if (const std::optional<double> limit = seconds_of_slurm_time(s.time_limit); limit && *limit <= s.signal_lead)
      throw UsageError(section.at(table) + "signal_lead = " + std::to_string(s.signal_lead) + " in [slurm] is not within time_limit = \"" + s.time_limit + "\": jobs would be asked to end as they begin");
    for (const std::string* word : {&s.partition, &s.account, &s.qos, &s.time_limit})
      if (word->find_first_of(" \t\n\"'\\") != std::string::npos)
        throw UsageError(section.at(table) + "`" + *word + "` in [slurm] may not hold spaces or quotes");
    for (const std::string& option : s.options)
      if (!option.starts_with("-") || option.find_first_of("\n\"\\") != std::string::npos)
        throw UsageError(section.at(table) + "`" + option + "` in [slurm] options is no option of sbatch on one line");
  }

  void links(Section& top, Machine& m) {
    const toml::node* node = top.find("link");
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) throw UsageError(top.at(*node) + "links are written [[link]]");
    m.links.clear();
    for (const toml::node& element : *array) {
      const toml::table* table = element.as_table();
      if (table == nullptr) throw UsageError(top.at(element) + "links are written [[link]]");
      Section section(*table, "[[link]]", path_);
      MachineLink link;
      section.text("name", link.name);
      const auto kinds = results::link_kinds();
      const auto kind = std::ranges::find(kinds, link.name, &results::LinkKind::name);
      if (kind == kinds.end())
        throw UsageError(section.at(*table) + "link `" + link.name + "` is none of: " + joined(kinds, ", ", &results::LinkKind::name));
      link.one_node = kind->one_node;
      section.text("description", link.description);
      section.flag("one_node", link.one_node);
      section.number("ranks_per_node", link.ranks_per_node, 1);
      section.texts("options", link.options);
      section.environment("environment", link.environment);
      section.refuse_unknown();
      m.links.push_back(std::move(link));
    }
  }

  std::string path_;
};

std::vector<std::string> folders_of_profiles(const std::string& bin) {
  return {bin + "/../share/thinwire/machines", std::string(THINWIRE_SOURCE_FOLDER) + "/experiments/machines"};
}

}  // namespace

std::vector<MachineLink> every_link() {
  std::vector<MachineLink> links;
  for (const results::LinkKind& kind : results::link_kinds()) {
    links.emplace_back();
    links.back().name = kind.name;
  }
  return links;
}

const MachineLink* Machine::link_of(const std::string& link) const {
  const std::string kind = link.substr(0, link.find(':'));
  for (const MachineLink& l : links)
    if (l.name == kind) return &l;
  return nullptr;
}

Shape shape_of(const Machine& machine, const std::string& link, int ranks, int omp_threads) {
  const MachineLink* how = machine.link_of(link);
  if (how == nullptr)
    throw UsageError("machine `" + machine.name + "` has no link `" + link + "` (it has: " + joined(machine.links, ", ", &MachineLink::name) + ")");
  const int most = how->ranks_per_node > 0 ? how->ranks_per_node : machine.ranks_per_node;
  Shape shape;
  shape.ranks = ranks;
  if (how->one_node || most == 0) {
    if (most > 0 && ranks > most)
      throw UsageError("link `" + link + "` keeps all ranks on one node of machine `" + machine.name + "`, which holds " +
                       std::to_string(most) + ", not " + std::to_string(ranks));
    shape.ranks_per_node = ranks;
  } else {
    shape.nodes = (ranks + most - 1) / most;
    shape.ranks_per_node = std::min(ranks, most);
  }
  if (omp_threads > 0)
    shape.cores_per_rank = omp_threads;
  else if (ranks == 1 && machine.cores_per_node > 0)
    shape.cores_per_rank = machine.cores_per_node;  // a single rank has the node's cores, as without a cluster
  shape.gpus_per_node = std::min(machine.gpus_per_node, shape.ranks_per_node);
  return shape;
}

Machine machine_from_text(const std::string& text, const std::string& path) {
  try {
    const toml::table root = toml::parse(text, path);
    Machine machine = MachineReader(path).read(root);
    machine.path = path;
    machine.text = text;
    return machine;
  } catch (const toml::parse_error& e) {
    throw UsageError(path + ":" + std::to_string(e.source().begin.line) + ": " + std::string(e.description()));
  }
}

Machine read_machine(const std::string& name_or_file, const std::string& bin) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".toml"))
    return machine_from_text(results::read_file(name_or_file), fs::absolute(name_or_file).lexically_normal().string());
  std::set<std::string> known;
  for (const std::string& folder : folders_of_profiles(bin)) {
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
      if (entry.path().extension() != ".toml") continue;
      if (entry.path().stem() == name_or_file)
        return machine_from_text(results::read_file(entry.path().string()), entry.path().lexically_normal().string());
      known.insert(entry.path().stem().string());
    }
  }
  const std::vector<std::string> names(known.begin(), known.end());
  if (names.empty())
    throw EnvironmentError("no machine profiles are installed beside " + bin + "; name a file: --machine ./FILE.toml");
  throw UsageError("--machine " + name_or_file + ": no such profile; did you mean " +
                   nearest_name(name_or_file, names.data(), names.data() + names.size()) + "? There are: " + joined(names) +
                   "; or name a file: ./FILE.toml");
}

}  // namespace thinwire::sweep
