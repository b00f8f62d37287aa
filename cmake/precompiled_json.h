// As precompiled.h, for layers that read and write JSON.
#include "cmake/precompiled.h"

#include <nlohmann/json.hpp>
