#include "models/stage/model_config.h"

#include "core/error.h"

namespace thinwire {

void ModelConfig::check() const {
  for (const auto& [name, value] : {std::pair{"vocab", vocab},
                                    {"hidden", hidden},
                                    {"layers", layers},
                                    {"heads", heads},
                                    {"sequence", max_seq}})
    if (value < 1)
      throw UsageError(std::string("Model size '") + name + "' is " + std::to_string(value) +
                       "; it must be at least 1.");
  if (hidden % heads != 0)
    throw UsageError("Hidden size " + std::to_string(hidden) + " is not a multiple of the " +
                     std::to_string(heads) + " attention heads. Choose --hidden as a multiple of --heads.");
  if (!(dropout >= 0 && dropout < 1))
    throw UsageError("Dropout rate " + std::to_string(dropout) + " is not in [0, 1).");
}

}  // namespace thinwire
