// As precompiled.h, for claims: what reads a claim's cells stands in most of them.
#include "cmake/precompiled.h"
#include "experiments/claims/context.h"
