#include "models/training/checkpoint/checkpoint_settings.h"

#include <algorithm>

#include "models/training/config/train_options.h"

namespace thinwire {

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
  const TrainConfig before;
  const auto unknown_there = [&](const TrainOption& option) { return option.formerly.empty() ? option.get(before) : option.formerly; };
  for (const TrainOption& option : train_options()) {
    if (option.on_resume == OnResume::free) continue;
    const std::string here = option.get(config), there = group.has_attribute("", option.flag) ? group.text_attribute("", option.flag) : unknown_there(option);
    if (here == there) continue;
    const std::string line = option.flag + " is " + (there.empty() ? "(empty)" : there) + " there, " + (here.empty() ? "(empty)" : here) + " here";
    switch (option.on_resume) {
      case OnResume::refused:
        d.model.push_back(line);
        break;
      case OnResume::codec_state_and_data:
        d.rest.push_back(line);
        [[fallthrough]];
      case OnResume::codec_state:
        d.layout.push_back(line);
        break;
      case OnResume::told:
        d.rest.push_back(line);
        break;
      case OnResume::free:
        break;
    }
  }
  if (const std::string there = file.text_attribute("", "corpus_sha256"); there != corpus_hash) {
    d.other_text = true;
    d.model.push_back("the text has SHA-256 " + there.substr(0, 12) + " there, " + corpus_hash.substr(0, 12) + " here");
  }
  d.compresses_there = file.int_attribute("", "compresses") != 0;
  return d;
}

}  // namespace thinwire
