// Where the tree is: what ctest says, or the working directory for a test that is started by hand in it.
#pragma once

#include <cstdlib>
#include <string>

namespace thinwire::testing {

inline std::string source_folder() {
  const char* const said = std::getenv("THINWIRE_SOURCE_DIR");
  return said != nullptr ? said : ".";
}

}  // namespace thinwire::testing
