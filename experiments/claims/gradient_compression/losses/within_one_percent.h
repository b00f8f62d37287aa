// The rule that a method keeps the dense loss within 1 %.
#pragma once

#include "experiments/claims/trained.h"

namespace thinwire::claims {

/// Its difference to the dense arm is the quantity `lost`.
inline Rule within_one_percent() {
  return {.constants = {{"within", 0.01, "of the dense loss"}, smallest_on_replicas},
          .scatter = {{"lost", "within", "smallest"}},
          .clauses = {{Verdict::confirmed, "lost.high <= within"}, {Verdict::not_reproduced, "lost.low > within"}},
          .smallest_effect = "smallest"};
}

}  // namespace thinwire::claims
