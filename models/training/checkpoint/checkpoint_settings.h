// The settings of a run inside its checkpoint, and which of them a run that resumes may change.
#pragma once

#include <string>
#include <vector>

#include "models/training/config/train_config.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {

void write_settings(const h5::Group& file, const TrainConfig& config, const std::string& corpus_hash);

/// Each line names a setting and both its values, "hidden is 256 there, 512 here".
struct SettingDifferences {
  std::vector<std::string> model;   ///< nothing can be resumed
  std::vector<std::string> layout;  ///< what codecs remember does not fit
  std::vector<std::string> rest;    ///< the run goes on, but differently
  bool other_text = false;
  bool compresses_there = false;    ///< the file's run had a codec
};
SettingDifferences compare_settings(const h5::Group& file, const TrainConfig& config, const std::string& corpus_hash);

}  // namespace thinwire
