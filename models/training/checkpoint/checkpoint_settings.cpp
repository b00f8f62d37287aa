#include "models/training/checkpoint/checkpoint_settings.h"

#include <algorithm>
#include <array>

#include "models/training/config/train_options.h"

namespace thinwire {
namespace {

enum class Meaning { model, layout, rest, none };

/// Which settings decide what. A new option is `rest` until it is named here: differences are then told, not refused.
Meaning meaning_of(const std::string& flag) {
  constexpr std::array model = {"model", "data", "hidden", "layers", "heads", "vocab", "max-seq", "seed", "dtype", "optimizer"};
  constexpr std::array layout = {"tensor-parallel", "tp",  "pp", "dp", "order", "schedule", "virtual-stages", "sequence-parallel", "scatter-gather", "zero-stage", "dp-replicas", "dp-nodes", "embedding-sync",
                                 "global-batch", "micro-batch", "seq", "form"};
  constexpr std::array none = {"steps", "text", "eval-interval", "eval-sequences", "error-interval", "compute", "graphs", "serial-steps", "compute-scale", "stage-forward-us",
                               "stage-backward-us", "omit", "sends", "checkpoint", "checkpoint-interval", "resume", "codec-state", "replica-state"};
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), flag) != list.end(); };
  if (in(model)) return Meaning::model;
  if (in(layout) || flag.starts_with("compress.")) return Meaning::layout;
  return in(none) ? Meaning::none : Meaning::rest;
}

/// The layout decides codec state; these of it decide the data as well.
bool changes_data(const std::string& flag) {
  return flag == "global-batch" || flag == "seq";
}

}  // namespace

void write_settings(const h5::Group& file, const TrainConfig& config, const std::string& corpus_hash) {
  const h5::Group group = file.create_group("config");
  for (const TrainOption& option : train_options()) group.set_attribute("", option.flag, option.get(config));
  file.set_attribute("", "corpus_sha256", corpus_hash);
  const bool compresses = std::any_of(config.compress.begin(), config.compress.end(), [](const auto& rule) { return rule.second.active(); });
  file.set_attribute("", "compresses", compresses ? 1 : 0);
}

SettingDifferences compare_settings(const h5::Group& file, const TrainConfig& config, const std::string& corpus_hash) {
  SettingDifferences d;
  const h5::Group group = file.group("config");
  // A setting that the program which wrote the file did not know yet: it did what is the default now.
  const TrainConfig before;
  for (const TrainOption& option : train_options()) {
    const Meaning meaning = meaning_of(option.flag);
    if (meaning == Meaning::none) continue;
    const std::string here = option.get(config), there = group.has_attribute("", option.flag) ? group.text_attribute("", option.flag) : option.get(before);
    if (here == there) continue;
    const std::string line = option.flag + " is " + (there.empty() ? "(empty)" : there) + " there, " + (here.empty() ? "(empty)" : here) + " here";
    if (meaning == Meaning::model) d.model.push_back(line);
    if (meaning == Meaning::layout) d.layout.push_back(line);
    if (meaning == Meaning::rest || changes_data(option.flag)) d.rest.push_back(line);
  }
  if (const std::string there = file.text_attribute("", "corpus_sha256"); there != corpus_hash) {
    d.other_text = true;
    d.model.push_back("the text has SHA-256 " + there.substr(0, 12) + " there, " + corpus_hash.substr(0, 12) + " here");
  }
  d.compresses_there = file.int_attribute("", "compresses") != 0;
  return d;
}

}  // namespace thinwire
