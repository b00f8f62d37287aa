// THINWIRE_MACHINE for as long as it lives.
#pragma once

#include <cstdlib>
#include <string>

namespace thinwire::testing {

struct MachineVariable {
  explicit MachineVariable(const std::string& path) { setenv("THINWIRE_MACHINE", path.c_str(), 1); }
  ~MachineVariable() { unsetenv("THINWIRE_MACHINE"); }
};

}  // namespace thinwire::testing
