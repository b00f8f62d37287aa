// The command line that repeats a cell by hand.
#pragma once

#include <string>

#include "results/cell.h"

namespace thinwire::results {

/// `program` with these parameters on so many ranks, quoted for a shell: over a link of the lab by its launcher, which makes the link and must be started in the source tree; over any other the program
/// makes or names it itself. Threads are not said. A cell that begins with what another cell kept (--resume kept:ID) or keeps something is one of a sweep, and no command outside of it repeats it.
std::string command_of_cell(const std::string& program, int ranks, const std::string& link, const Parameters& parameters);

}  // namespace thinwire::results
