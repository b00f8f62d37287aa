#include "bench/training/shared_start.h"

#include "core/sha256.h"
#include "models/training/config/train_options.h"

namespace thinwire::bench {

std::string shared_start_path(const TrainConfig& config, const std::string& program) {
  std::string decides = "program " + program + "\ntext " + config.text + "\nsteps " + std::to_string(config.shared_start) + "\n";
  for (const TrainOption& option : train_options())
    if (option.on_resume != OnResume::free && !option.key.starts_with("compress.")) decides += option.flag + " " + option.get(config) + "\n";
  return config.shared_start_folder + "/" + sha256_hex(decides) + ".h5";
}

}  // namespace thinwire::bench
