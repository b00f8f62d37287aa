#include "core/process/build_info.h"

#include "thinwire_build_info.h"
#include "thinwire_version.h"

namespace thinwire {

const BuildInfo& build_info() {
  static const BuildInfo info{THINWIRE_BUILD_COMMIT, THINWIRE_BUILD_DIRTY_HASH, THINWIRE_BUILD_COMPILER,
                              THINWIRE_BUILD_FLAGS};
  return info;
}

std::string version_text(const std::string& program) {
  const BuildInfo& build = build_info();
  const std::string source = build.commit.empty() ? "built outside a git checkout" : "commit " + build.commit + (build.dirty_hash.empty() ? "" : " with uncommitted changes");
  return program + " (thinwire) " + THINWIRE_VERSION + ", " + source + "\n" + build.compiler + ", " + build.flags;
}

}  // namespace thinwire
