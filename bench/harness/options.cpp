#include "bench/harness/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/joined.h"
#include "core/process/build_info.h"
#include "core/process/environment.h"
#include "kernels/codec/registry.h"
#include "results/files/tuned_products.h"

namespace thinwire::bench {
namespace {

const std::vector<BenchOption> common_options = {
    {"seed", "0", "seed of generated inputs and of the cell's random choices"},
    {"repetitions", "0", "measured repetitions; 0: until the noise is small or --max-time"},
    {"min-time", "0.05", "least seconds of measuring per point, --max-time at most"},
    {"max-time", "2", "most seconds of measuring per point"},
};

void list_parameters(std::ostringstream& text, const std::vector<ParameterSpec>& parameters) {
  for (const ParameterSpec& p : parameters) {
    text << "      " << p.name << "=" << p.default_value;
    if (p.kind == ParameterSpec::Kind::integer || p.kind == ParameterSpec::Kind::real) text << "  (" << p.minimum << " .. " << p.maximum << ")";
    if (!p.choices.empty()) text << "  (" << joined(p.choices, "|") << ")";
    text << "  " << p.help << "\n";
  }
}

/// What a wrapper may stand around.
std::string rules_of(const WrapperInfo& wrapper) {
  std::string text = wrapper.point_to_point_only ? "messages between stages" : "messages and sums over ranks";
  if (wrapper.needs_loss) text += "; not around a lossless codec";
  if (wrapper.remembers_loss) text += "; once in an expression";
  return text;
}

std::string nearest_option(const std::string& given, const BenchProgram& program) {
  std::vector<std::string> names = {"cells", "out", "json", "link", "check", "list", "help", "version", results::product_library_parameter};
  for (const BenchOption& option : all_options(program)) names.push_back(option.name);
  for (const RunOption& option : program.run_options) names.push_back(option.name);
  return nearest_name(given, names.data(), names.data() + names.size());
}

}  // namespace

std::vector<BenchOption> all_options(const BenchProgram& program) {
  std::vector<BenchOption> options = program.options;
  for (const BenchOption& common : common_options)
    if ((program.has_timing_options || common.name == "seed") &&
        std::none_of(options.begin(), options.end(), [&](const BenchOption& o) { return o.name == common.name; }))
      options.push_back(common);
  return options;
}

std::string list_of_codecs() {
  std::ostringstream text;
  text << "Codecs (NAME[:key=value,...][+WRAPPER[:key=value,...]]...):\n";
  for (const CodecInfo* codec : all_codecs()) {
    text << "  " << codec->name << (codec->has_released_form ? " [fair, released]" : "") << (has_cuda(codec->name) ? " [cuda]" : "") << ": " << codec->summary << "\n      source: " << codec->source << "\n";
    text << "      wire: " << codec->wire << "\n      traits: " << text_of(make_codec(codec->name).codec->traits()) << "\n";
    list_parameters(text, codec->parameters);
    if (!codec->presets.empty()) text << "      presets: " << joined(codec->presets) << "\n";
  }
  text << "Wrappers:\n";
  for (const WrapperInfo* wrapper : all_wrappers()) {
    text << "  " << wrapper->name << ": " << wrapper->summary << "\n      source: " << wrapper->source << "\n";
    text << "      wire: " << wrapper->wire << "\n      around: " << rules_of(*wrapper) << "\n";
    list_parameters(text, wrapper->parameters);
  }
  return text.str();
}

std::optional<CommandLine> parse_command_line(int argc, char** argv, const BenchProgram& program) {
  CommandLine line;
  CLI::App app(program.summary, program.name);
  app.set_help_flag("--help", "this text");
  app.set_version_flag("--version", version_text(program.name), "version, source commit and compiler");
  bool list = false;
  app.add_option("--cells", line.cells_file, "launch file of a sweep (JSON) instead of one cell from options")->group("Run");
  app.add_option("--out", line.out, "result folder: records and journal go there (none: nothing is recorded)")->group("Run");
  app.add_option("--link", line.link, "what the ranks talk over (default shm): emulated:RATE[,latency=...] is made here; netns:RATE (experiments/lab/launch.sh) and fabric (the network between nodes) are the launcher's, and only named here")->group("Run");
  app.add_option(std::string("--") + results::product_library_parameter, line.product_library,
                 "which library multiplies f32 matrices, openblas or onednn[:kernels=NAME,CLASS=LIBRARY,...]; part of the cell's identity (default: what the file named by THINWIRE_MACHINE says, else OpenBLAS as it comes)")
      ->group("Run");
  app.add_flag("--check", line.check_only, "verify against the references only; no timing")->group("Run");
  app.add_flag("--list", list, "codecs and wrappers: source, wire format, traits, parameters")->group("Run");
  app.add_option("--json", line.json, "rows as JSON lines to this file, - for stdout (the table then goes to stderr)")->group("Run");
  const std::vector<BenchOption> options = all_options(program);
  std::vector<std::string> texts(options.size());
  std::vector<CLI::Option*> parsed;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string help = options[i].help + (options[i].default_value.empty() ? "" : " (default " + options[i].default_value + ")");
    parsed.push_back(app.add_option("--" + options[i].name, texts[i], help)->group(options[i].group));
    if (options[i].may_be_bare) parsed.back()->expected(0, 1);
  }
  for (const RunOption& option : program.run_options) {
    // Either kind writes its text into the map only where it was given.
    const auto put = [&line, name = option.name](const std::string& text) { line.run_options[name] = text; };
    if (option.takes_value)
      app.add_option_function<std::string>("--" + option.name, put, option.help)->group("Run");
    else
      app.add_flag_callback("--" + option.name, [put] { put("true"); }, option.help)->group("Run");
  }
  const bool prints = Environment::launch_rank().value_or(0) == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (prints) std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    if (prints) std::printf("%s\n", version.what());
    return std::nullopt;
  } catch (const CLI::ExtrasError& error) {
    std::string name;
    for (const std::string& extra : app.remaining())
      if (name.empty()) name = extra;
    const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    throw UsageError(program.name + ": unknown option or argument `" + name + "`; did you mean --" + nearest_option(bare.substr(0, bare.find('=')), program) +
                     "? All options: " + program.name + " --help");
  } catch (const CLI::ParseError& error) {
    throw UsageError(program.name + ": " + error.what() + ". All options: " + program.name + " --help");
  }
  if (list) {
    if (prints) std::fputs(list_of_codecs().c_str(), stdout);
    return std::nullopt;
  }
  for (std::size_t i = 0; i < options.size(); ++i)
    if (parsed[i]->count() > 0) line.values[options[i].name] = options[i].may_be_bare && texts[i].empty() ? "true" : texts[i];
  // A shorter --max-time alone takes the least time down with it.
  if (const auto most = line.values.find("max-time"), least = line.values.find("min-time"); program.has_timing_options && most != line.values.end() && least == line.values.end()) {
    const auto otherwise = std::ranges::find(common_options, "min-time", &BenchOption::name);
    if (std::strtod(most->second.c_str(), nullptr) < std::strtod(otherwise->default_value.c_str(), nullptr)) line.values["min-time"] = most->second;
  }
  if (!line.cells_file.empty() && !line.product_library.empty())
    throw UsageError(program.name + ": --" + results::product_library_parameter + " stands beside --cells; a launch file holds the parameters of its cells itself");
  if (!line.cells_file.empty() && !line.values.empty())
    throw UsageError(program.name + ": --" + line.values.begin()->first + " stands beside --cells; a launch file holds the parameters of its cells itself");
  return line;
}

}  // namespace thinwire::bench
