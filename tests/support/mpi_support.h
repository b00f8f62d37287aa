// What tests may ask about the job they run in.
#pragma once

namespace thinwire::testing {

/// Rank of this process and number of ranks; 0 and 1 when started without a launcher (MPI is then not initialised).
int rank();
int size();

}  // namespace thinwire::testing
