// As precompiled.h, for programs: half of what a short one takes is to read the parser of options.
#include "cmake/precompiled.h"

#include <CLI/CLI.hpp>
