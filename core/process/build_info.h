// What the build knows about itself. One .cpp includes the generated header, so a commit recompiles one file.
#pragma once

#include <string>

namespace thinwire {

struct BuildInfo {
  std::string commit;      ///< empty when built outside a git checkout
  std::string dirty_hash;  ///< SHA-256 of uncommitted changes; empty when there were none
  std::string compiler;
  std::string flags;
};
const BuildInfo& build_info();

/// What --version prints of a program, two lines: version, commit and whether the sources had uncommitted changes; compiler and flags.
std::string version_text(const std::string& program);

}  // namespace thinwire
