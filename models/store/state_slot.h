// What a run remembers between steps, in pieces that say whose they are. Parameter stores and update policies list their slots; a checkpoint
// walks them and knows neither optimizer nor sharding.
#pragma once

#include <string>
#include <vector>

#include "models/layout/layout.h"

namespace thinwire {

/// Who holds the values of a slot along the data axis.
enum class Owner {
  replicated,   ///< every rank the same values
  sharded,      ///< every rank rows of its own, all of them together each row once
  per_replica,  ///< every replica values of its own, which mean nothing under another number of replicas
};

struct StateSlot {
  std::string name;  ///< of the kind of state, "weights" or "first_moment": the folder of the parameter in a checkpoint
  Owner owner = Owner::replicated;
  ParameterLayout layout;  ///< of the parameter that it belongs to
  TensorView value;        ///< of this rank's part of the parameter seen as a matrix, from element first_column of row first_row on: whole rows but where a flat parameter was cut
  std::int64_t first_row = 0, first_column = 0;
  bool copy = false;            ///< another rank holds the same values and saves them (tied table)
  int replica = 0, replicas = 1;  ///< of per_replica: whose values these are, and of how many
  /// Kinds of state that a checkpoint may hold this under, the best first; empty: its own name. Of per_replica: what it begins as where the file has it of another number of
  /// replicas, and a reset is asked for; empty: as it is in a new run.
  std::vector<std::string> sources = {};
};

}  // namespace thinwire
