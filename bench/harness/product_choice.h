// Which library multiplies f32 matrices in this job (kernels/nn/gemm/product_library.h): part of the identity of its cells, chosen before MPI
// starts, the same on every rank.
#pragma once

#include <string>

#include "bench/harness/launch_file.h"
#include "collectives/communicator/communicator.h"

namespace thinwire::bench {

/// What the command line says, in its one spelling; where it says nothing, what the file named by THINWIRE_MACHINE says of this machine. Empty
/// where there is neither: OpenBLAS as it comes, under the identity that such cells always had. UsageError for a text that is no choice and for a
/// machine file that is damaged or another machine's.
std::string product_library_of_command(const std::string& given);

/// What the cells of a launch file say, which is all that counts for them. UsageError where they differ: a process has one choice.
std::string product_library_of(const Launch& launch);

/// Has this process multiply so. Starts it anew where the choice names other kernels of OpenBLAS than it has. EnvironmentError where it cannot:
/// kernels that the processor does not run, a oneDNN that is not here.
void take_product_library(const std::string& choice, char** argv);

/// Collective. EnvironmentError on all ranks where one of them has another choice than rank 0.
void require_one_choice(const std::string& choice, Communicator& world);

}  // namespace thinwire::bench
