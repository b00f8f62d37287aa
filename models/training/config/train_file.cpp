// TrainConfig as a TOML file: reading it with file and line in every message, and writing it.
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "models/training/config/train_options.h"

namespace thinwire {
namespace {

struct Reader {
  const std::string path;
  TrainValues values = {};
  TrainConfig scratch = train_defaults();
  std::vector<std::string> keys = {};

  std::string at(const toml::node& node) const {
    return path + ":" + std::to_string(node.source().begin.line) + ": ";
  }

  [[noreturn]] void unknown(const toml::node& node, const std::string& key) const {
    if (key == "compress.control" || key.starts_with("compress.control."))
      throw UsageError(at(node) + "control traffic (norms, loss, look-ups) is never compressed; remove `" +
                       key + "`");
    throw UsageError(at(node) + "unknown key `" + key + "`; did you mean `" +
                     nearest_name(key, keys.data(), keys.data() + keys.size()) +
                     "`? --print-config writes all of them");
  }

  static std::string text_of(const toml::node& node, TrainOption::Kind kind) {
    if (kind == TrainOption::Kind::text && node.is_string()) return node.as_string()->get();
    if (kind == TrainOption::Kind::truth && node.is_boolean())
      return node.as_boolean()->get() ? "true" : "false";
    if (node.is_integer() && (kind == TrainOption::Kind::integer || kind == TrainOption::Kind::real))
      return std::to_string(node.as_integer()->get());
    if (kind == TrainOption::Kind::real && node.is_floating_point()) {
      char digits[40];
      std::snprintf(digits, sizeof digits, "%.17g", node.as_floating_point()->get());
      return digits;
    }
    constexpr const char* wanted[] = {"a whole number", "a number", "true or false", "text in quotes"};
    throw UsageError(std::string("must be ") + wanted[static_cast<std::size_t>(kind)]);
  }

  void leaf(const toml::node& node, const std::string& key) {
    for (const TrainOption& option : train_options()) {
      if (option.key != key) continue;
      try {
        const std::string text = text_of(node, option.kind);
        option.set(scratch, text);
        if (!values.emplace(option.flag, text).second) throw UsageError("is given twice");
      } catch (const UsageError& error) {
        throw UsageError(at(node) + "`" + key + "` " + error.what());
      }
      return;
    }
    unknown(node, key);
  }

  void table(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      std::string key = prefix + std::string(name.str());
      if (const toml::table* inner = node.as_table()) {
        if (std::none_of(keys.begin(), keys.end(),
                         [&](const std::string& known) { return known.starts_with(key + "."); }))
          unknown(node, key);
        this->table(*inner, key + ".");
      } else {
        // [compress.tp_forward] codec = ... is the long spelling of tp_forward = ...
        if (prefix.starts_with("compress.") && prefix != "compress." && name.str() == "codec")
          key = prefix.substr(0, prefix.size() - 1);
        leaf(node, key);
      }
    }
  }
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(c));
      result += code;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

TrainValues read_train_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw EnvironmentError(path + ": the configuration cannot be read; check --config");
  Reader reader{path};
  for (const TrainOption& option : train_options()) reader.keys.push_back(option.key);
  try {
    reader.table(toml::parse(text.str(), path), "");
  } catch (const toml::parse_error& error) {
    throw UsageError(path + ":" + std::to_string(error.source().begin.line) + ": " +
                     std::string(error.description()));
  }
  return reader.values;
}

std::string print_config(const TrainConfig& config) {
  std::ostringstream text;
  std::string section;
  for (const TrainOption& option : train_options()) {
    std::string inside = option.key.substr(0, option.key.find('.')),
                name = option.key.substr(option.key.find('.') + 1);
    if (inside == "compress" && name != "form") {
      const std::string traffic = name.substr(0, name.find('.'));
      const auto rule = config.compress.find(parse_traffic(traffic));
      if (rule == config.compress.end() || !rule->second.active()) continue;
      inside += "." + traffic;
      name = name == traffic ? "codec" : name.substr(traffic.size() + 1);
    }
    if (inside != section) {
      text << (section.empty() ? "" : "\n") << "[" << inside << "]\n";
      section = inside;
    }
    const std::string value = option.get(config);
    text << name << " = " << (option.kind == TrainOption::Kind::text ? quoted(value) : value) << "  # "
         << option.help << (option.unit.empty() ? "" : " [" + option.unit + "]") << "\n";
  }
  return text.str();
}

}  // namespace thinwire
