// The steps that runs have in common before their compression begins, trained once: what they reach is kept in a file that the next such run takes.
#pragma once

#include <string>

#include "models/training/config/train_config.h"

namespace thinwire::bench {

/// FOLDER/<hash>.h5 for `config.shared_start`, where the hash covers every setting that decides the state after those steps, the program, and what the
/// data are (`data_hash`, DataSource::hash), wherever they lie. Compress rules it does not cover, since none acts before (TrainConfig::check), nor what a
/// checkpoint calls free: steps, validations, files.
std::string shared_start_path(const TrainConfig& config, const std::string& program, const std::string& data_hash);

}  // namespace thinwire::bench
