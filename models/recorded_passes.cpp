#include "models/recorded_passes.h"

#include "kernels/nn/device_dispatch.h"

namespace thinwire {

void RecordedPasses::drop_outdated() {
  const std::uint64_t now = nn::device::workspace_generation();
  if (now == generation_) return;
  generation_ = now;
  synchronize_placement();  // launched ones may still run
  for (auto& [key, pass] : passes_) pass.graph.reset();
}

}  // namespace thinwire
