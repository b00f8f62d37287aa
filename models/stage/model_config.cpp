#include "models/stage/model_config.h"

#include <limits>

#include "core/error.h"

namespace thinwire {

void ModelConfig::check() const {
  struct Size {
    const char* name;
    std::int64_t value, most;  ///< what numbers of layers and tokens, and products of two sizes, have room for
  };
  constexpr std::int64_t most_of_int = std::numeric_limits<std::int32_t>::max();
  for (const Size& size : {Size{"vocab", vocab, most_of_int}, Size{"hidden", hidden, 1 << 20}, Size{"layers", layers, 1 << 20}, Size{"heads", heads, 1 << 20}, Size{"sequence", max_seq, most_of_int}})
    if (size.value < 1 || size.value > size.most)
      throw UsageError(std::string("Model size '") + size.name + "' is " + std::to_string(size.value) +
                       "; it must be at least 1" + (size.value < 1 ? "." : " and at most " + std::to_string(size.most) + "."));
  if (hidden % heads != 0)
    throw UsageError("Hidden size " + std::to_string(hidden) + " is not a multiple of the " +
                     std::to_string(heads) + " attention heads. Choose --hidden as a multiple of --heads.");
  if (!(dropout >= 0 && dropout < 1))
    throw UsageError("Dropout rate " + std::to_string(dropout) + " is not in [0, 1).");
}

}  // namespace thinwire
