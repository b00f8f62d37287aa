// Where kept numbers stood before other pages had some, too. Exact claims that include this are hashed with their source, which would change with the path.
#pragma once

#include "experiments/claims/kept/kept.h"
