#include "bench/harness/launch_file.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"

namespace thinwire::bench {

Launch read_launch_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw EnvironmentError("launch file " + path + " cannot be read; check the path given to --cells");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Launch launch;
  launch.hash = sha256_hex(text);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("schema").get<int>() != 1)
      throw UsageError("launch file " + path + " has schema " + json.at("schema").dump() + ", this program reads schema 1; write it again with the sweep of this version");
    launch.launch = json.at("launch").get<std::string>();
    launch.out = json.at("out").get<std::string>();
    launch.link = json.value("link", "shm");
    launch.resume = json.value("resume", "");
    for (const nlohmann::json& cell : json.at("cells"))
      launch.cells.push_back({cell.at("cell_id").get<std::string>(), results::Parameters::from_json(cell.at("parameters").dump(), path)});
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("launch file " + path + " is malformed: " + error.what() + "; write it again with the sweep");
  }
  if (launch.cells.empty()) throw UsageError("launch file " + path + " holds no cells; there is nothing to do");
  return launch;
}

results::ParameterValue parameter_from_text(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end) return integer;
  double number = 0;
  if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc() && r.ptr == end && number - number == 0) return number;
  return text;
}

}  // namespace thinwire::bench
