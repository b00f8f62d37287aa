#include "models/cost_model/step_files.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <toml++/toml.h>

#include "core/error.h"
#include "core/joined.h"
#include "results/files/files.h"

namespace thinwire {
namespace {

/// One table of a file: values are taken by name, and what is left over is refused.
class Section {
 public:
  Section(std::string file, std::string name, const toml::table& table) : file_(std::move(file)), name_(std::move(name)), table_(table) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    throw UsageError(file_ + ": `" + (name_.empty() ? key : name_ + "." + key) + "` " + why);
  }
  bool has(const char* key) const { return table_.contains(key); }
  double number(const char* key, double least, double otherwise = std::nan("")) {
    return taken(key, std::isnan(otherwise)) ? checked(key, *table_.get(key), least) : otherwise;
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t otherwise = -1) {
    if (!taken(key, otherwise < 0)) return otherwise;
    const auto value = table_.get(key)->value<std::int64_t>();
    if (!table_.get(key)->is_integer() || *value < least) refuse(key, "is no whole number of " + std::to_string(least) + " or more");
    return *value;
  }
  /// That an int holds.
  int count(const char* key, std::int64_t least, std::int64_t otherwise = -1) {
    constexpr std::int64_t most = 1'000'000;
    const std::int64_t value = integer(key, least, otherwise);
    if (value > most) refuse(key, "is more than " + std::to_string(most));
    return static_cast<int>(value);
  }
  bool truth(const char* key, bool otherwise) {
    if (!taken(key, false)) return otherwise;
    if (!table_.get(key)->is_boolean()) refuse(key, "is neither true nor false");
    return *table_.get(key)->value<bool>();
  }
  std::string text(const char* key, const std::string& otherwise, const std::vector<std::string>& choices = {}) {
    if (!taken(key, false)) return otherwise;
    const auto value = table_.get(key)->value<std::string>();
    if (!table_.get(key)->is_string()) refuse(key, "is no text");
    if (!choices.empty() && std::find(choices.begin(), choices.end(), *value) == choices.end()) refuse(key, "= \"" + *value + "\" is none of " + joined(choices));
    return *value;
  }
  /// A number, or [low, high].
  Range range(const char* key, double least) {
    if (!has(key) || !table_.get(key)->is_array()) {
      const double value = number(key, least);
      return {value, value};
    }
    const std::vector<double> both = numbers(key, least);
    if (both.size() != 2 || both[0] > both[1]) refuse(key, "is neither a number nor [low, high]");
    return {both[0], both[1]};
  }
  /// A number or a list of them; empty where the key is missing.
  std::vector<double> numbers(const char* key, double least) {
    std::vector<double> values;
    if (!taken(key, false)) return values;
    const toml::node& node = *table_.get(key);
    if (!node.is_array()) return {checked(key, node, least)};
    for (const toml::node& one : *node.as_array()) values.push_back(checked(key, one, least));
    return values;
  }
  void each_table(const char* key, const std::function<void(const std::string&, Section)>& visit) {
    if (!taken(key, false)) return;
    if (!table_.get(key)->is_table()) refuse(key, "is no table");
    for (const auto& [name, node] : *table_.get(key)->as_table()) {
      const std::string full = std::string(key) + "." + std::string(name.str());
      if (!node.is_table()) throw UsageError(file_ + ": `" + full + "` is no table");
      visit(std::string(name.str()), Section(file_, full, *node.as_table()));
    }
  }
  /// The table of this name; UsageError when it is missing and needed.
  Section table(const char* key, bool needed) {
    static const toml::table none;
    if (!taken(key, needed)) return Section(file_, key, none);
    if (!table_.get(key)->is_table()) refuse(key, "is no table");
    return Section(file_, key, *table_.get(key)->as_table());
  }
  void end() const {
    for (const auto& [key, value] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      refuse(name, "is unknown; did you mean `" + nearest_name(name, known_.data(), known_.data() + known_.size()) + "`?");
    }
  }

 private:
  bool taken(const char* key, bool needed) {
    known_.push_back(key);
    if (needed && !has(key)) refuse(key, "is missing");
    return has(key);
  }
  double checked(const char* key, const toml::node& node, double least) const {
    const auto value = node.value<double>();
    if (!node.is_number() || !std::isfinite(*value) || *value < least) refuse(key, "is no number of " + std::to_string(least) + " or more");
    return *value;
  }

  std::string file_, name_;
  const toml::table& table_;
  std::vector<std::string> known_;
};

template <typename Read>
auto read(const std::string& path, Read&& read_sections) {
  if (!std::filesystem::exists(path)) throw EnvironmentError(path + ": no such file; docs/step-model.md shows what it holds");
  try {
    const toml::table file = toml::parse(results::read_file(path), path);
    Section whole(path, "", file);
    auto result = read_sections(whole);
    whole.end();
    return result;
  } catch (const toml::parse_error& error) {
    throw UsageError(path + ", line " + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
}

TrafficClass traffic_of(const std::string& path, const std::string& name) {
  try {
    return parse_traffic(name);
  } catch (const UsageError& error) {
    throw UsageError(path + ": " + error.what());
  }
}

LinkModel link_of(Section section) {
  LinkModel link;
  link.gbps = section.number("gbps", 1e-9);
  link.latency_us = section.number("latency_us", 0, 0);
  section.end();
  return link;
}

}  // namespace

ClusterMachine read_cluster_machine(const std::string& path) {
  return read(path, [&](Section& file) {
    ClusterMachine m;
    m.name = file.text("name", std::filesystem::path(path).stem());
    m.ranks_per_node = file.count("ranks_per_node", 1);
    m.between = link_of(file.table("between", true));
    if (m.ranks_per_node > 1 || file.has("inside")) m.inside = link_of(file.table("inside", true));
    file.each_table("inside_of", [&](const std::string& name, Section s) { m.inside_of[traffic_of(path, name)] = link_of(std::move(s)); });
    file.each_table("between_of", [&](const std::string& name, Section s) { m.between_of[traffic_of(path, name)] = link_of(std::move(s)); });
    Section compute = file.table("compute", true);
    m.source = compute.text("source", "");
    if (compute.has("tflops")) m.tflops = compute.range("tflops", 1e-9);
    m.stage_forward_us = compute.numbers("stage_forward_us", 0);
    m.stage_backward_us = compute.numbers("stage_backward_us", 0);
    if (compute.has("codec_gbps")) m.codec_gbps = compute.range("codec_gbps", 1e-9);
    m.optimizer_us = compute.number("optimizer_us", 0, 0);
    if ((m.tflops.low > 0) == m.measured()) compute.refuse("tflops", "or stage_forward_us and stage_backward_us: one of them says how fast a rank computes");
    compute.end();
    return m;
  });
}

ModelShape read_model_shape(const std::string& path) {
  return read(path, [&](Section& file) {
    ModelShape m;
    m.name = file.text("name", std::filesystem::path(path).stem());
    m.kind = file.text("kind", m.kind);
    m.layers = file.integer("layers", 1);
    m.hidden = file.integer("hidden", 1);
    m.heads = file.integer("heads", 1);
    m.seq = file.integer("seq", 1);
    m.vocabulary = file.integer("vocabulary", 1);
    return m;
  });
}

Execution read_execution(const std::string& path) {
  return read(path, [&](Section& file) {
    Execution e;
    e.name = file.text("name", std::filesystem::path(path).stem());
    e.mesh.tp = file.count("tp", 1, 1);
    e.mesh.pp = file.count("pp", 1, 1);
    e.mesh.dp = file.count("dp", 1, 1);
    e.mesh.order = file.text("order", e.mesh.order);
    check_mesh(e.mesh);
    e.micro_batch = file.integer("micro_batch", 1, 1);
    e.micro_batches = file.integer("micro_batches", 1);
    e.schedule = file.text("schedule", e.schedule, schedule_names());
    e.virtual_stages = file.count("virtual_stages", 1, 1);
    e.blocking_sends = file.text("sends", "overlapped", {"overlapped", "blocking"}) == "blocking";
    e.recompute = file.text("recompute", "none", {"none", "full"}) == "full";
    e.scatter_gather = file.truth("scatter_gather", true);
    e.fused_embedding = file.text("embedding_sync", "two_step", {"two_step", "fused"}) == "fused";
    e.bytes_per_number = file.integer("bytes_per_number", 1, 4);
    file.each_table("compress", [&](const std::string& name, Section s) {
      const TrafficClass traffic = traffic_of(path, name);
      if (traffic != TrafficClass::pp_backward && traffic != TrafficClass::dp_gradient)
        throw UsageError(path + ": compress." + name + ": the step model knows codecs of pp_backward and dp_gradient only");
      ClassCodec c;
      c.codec = s.text("codec", "powersgd");
      c.rank = s.integer("rank", 1, 0);
      c.ratio = s.number("ratio", 1, 0);
      c.min_ratio = s.number("min_ratio", 1, 1);
      c.epilogue_only = s.truth("epilogue_only", false);
      c.stages = s.has("stages") ? s.count("stages", 0) : -1;
      if (c.epilogue_only && traffic != TrafficClass::pp_backward) s.refuse("epilogue_only", "belongs to pp_backward");
      if (c.stages >= 0 && traffic != TrafficClass::dp_gradient) s.refuse("stages", "belongs to dp_gradient");
      if ((c.rank > 0) == (c.ratio > 1)) s.refuse("rank", "or ratio (above 1): one of them says how much is sent");
      s.end();
      e.compress[traffic] = c;
    });
    return e;
  });
}

}  // namespace thinwire
