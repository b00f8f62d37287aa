#include "models/compute/recorded_passes.h"

namespace thinwire {

void RecordedPasses::drop(Pass& pass) {
  pass.seen = false;
  if (!pass.graph) return;
  synchronize_placement();  // it may still run
  pass.graph.reset();
}

}  // namespace thinwire
