// As precompiled.h, for tests.
#include "cmake/precompiled.h"

#include <gtest/gtest.h>
