// Which kernels OpenBLAS takes on a processor that is newer than it.
#pragma once

#include <string>
#include <vector>

#include "core/process/instructions.h"

namespace thinwire {

/// OpenBLAS knows processors by a table as old as the library. One that is missing there gets kernels of 2004 (0.3.21 calls an Emerald Rapids
/// "Prescott": a training step took 0.78 s instead of 0.21 s). Where that has happened, `OPENBLAS_CORETYPE` is set to the nearest kernels that the
/// processor can run, and the program starts itself anew: the library has read the variable before main(). A variable that is set is left alone, as is
/// any other BLAS. To be called first in main(), before MPI. Returns where nothing is to be mended, or cannot be. A process that keeps to AVX2 gets
/// kernels for AVX2 in the same way; UsageError where OPENBLAS_CORETYPE asks for others.
void choose_blas_kernels(char** argv);

/// What the variable is to be for the kernels `chosen` (openblas_get_corename(); empty: another library); empty: they are good enough.
std::string better_blas_kernels(const std::string& chosen, const ProcessorFeatures& processor);

/// Kernels that such a processor may be tuned to, by OpenBLAS's names: those for AVX2 or more that it can run. OpenBLAS does not always look: told to
/// take SkylakeX, 0.3.21 on a Zen 3 does, and dies of an illegal instruction. A library that does not know one of them keeps its own choice, which
/// blas_kernels_in_use() tells.
std::vector<std::string> tunable_blas_kernels(const ProcessorFeatures& processor);

/// openblas_get_corename(); empty: another library.
std::string blas_kernels_in_use();

/// Starts the program anew with the kernels `wanted` where it has others. They are then those of the whole process, whatever OPENBLAS_CORETYPE said
/// before: who asks for them has written them into the identity of its results. To be called before MPI and before threads. Throws
/// EnvironmentError where the processor cannot run them, and where the library, after that, still has others: it does not know them.
void take_blas_kernels(const std::string& wanted, char** argv);

}  // namespace thinwire
