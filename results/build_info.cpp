#include "results/build_info.h"

#include "thinwire_build_info.h"

namespace thinwire::results {

const BuildInfo& build_info() {
  static const BuildInfo info{THINWIRE_BUILD_COMMIT, THINWIRE_BUILD_DIRTY_HASH, THINWIRE_BUILD_COMPILER,
                              THINWIRE_BUILD_FLAGS};
  return info;
}

}  // namespace thinwire::results
