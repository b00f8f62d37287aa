// One table of everything a training run can be told: the key of the TOML file, the flag of the command line,
// the parameter of a sweep's cell. Reading, writing, --help and --print-config all walk this table.
//   [model] hidden = 256          --hidden 256
//   [compress] tp_forward = "topk:fraction=0.1"                      --compress.tp_forward topk:fraction=0.1
//   [compress.tp_forward] codec = "...", layers = "2-3"              --compress.tp_forward.layers 2-3
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/training/config/train_config.h"

namespace thinwire {

/// What a checkpoint of a run with another value of an option is worth to a run that resumes from it.
enum class OnResume {
  refused,               ///< nothing: the weights or what they learn from are others
  codec_state,           ///< weights, but not what codecs remember of another layout or codec
  codec_state_and_data,  ///< likewise, and the data comes in another order: said to the user
  told,                  ///< everything; the run goes on differently: said to the user
  free,                  ///< everything: the option changes no result
};

struct TrainOption {
  enum class Kind { integer, real, truth, text };
  /// Every option says what another value of it means to a resumed run: without `on_resume` it does not compile.
  TrainOption(std::string key_, std::string flag_, OnResume on_resume_, std::string help_, std::string unit_, Kind kind_,
              std::vector<std::string> choices_ = {})
      : key(std::move(key_)), flag(std::move(flag_)), on_resume(on_resume_), help(std::move(help_)), unit(std::move(unit_)), kind(kind_), choices(std::move(choices_)) {}

  std::string key;   ///< "model.hidden"
  std::string flag;  ///< "hidden": --hidden, and the name of the cell's parameter
  OnResume on_resume;
  std::string help;
  std::string unit;  ///< "tokens", "MiB", ... or empty
  Kind kind;
  std::vector<std::string> choices;  ///< of a text; empty: any
  std::string formerly = {};  ///< what programs did that did not know the option, as a checkpoint of theirs is read; empty: what is the default now
  /// The value as text, such that set(get()) changes nothing.
  std::function<std::string(const TrainConfig&)> get = {};
  /// UsageError saying what is wrong with `value`; whoever calls adds where it stands.
  std::function<void(TrainConfig&, const std::string& value)> set = {};
};

/// All options in the order of the file that print_config writes.
std::span<const TrainOption> train_options();

/// Values by flag name, as text.
using TrainValues = std::map<std::string, std::string>;

/// Defaults of a run. Sizes that follow others (positions from seq, steps of the learning-rate schedule from
/// steps) are 0 here.
TrainConfig train_defaults();

/// The values that a TOML file gives. EnvironmentError when it cannot be read; UsageError with file, line and
/// nearest valid name for syntax, unknown keys and values of the wrong kind.
TrainValues read_train_file(const std::string& path);

/// Defaults overridden by `values`; what is 0 for "as another" is filled in, and with --from sizes and vocabulary from its folder. Does not check() the sizes
/// against each other. UsageError for unknown names (with the nearest) and bad values, naming the flag.
TrainConfig make_train_config(const TrainValues& values);

/// A TOML file that read_train_file and make_train_config turn into this configuration again.
std::string print_config(const TrainConfig& config);

}  // namespace thinwire
