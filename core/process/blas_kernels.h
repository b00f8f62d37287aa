// Which kernels OpenBLAS takes on a processor that is newer than it.
#pragma once

#include <string>

namespace thinwire {

/// OpenBLAS knows processors by a table as old as the library. One that is missing there gets kernels of 2004 (0.3.21 calls an Emerald Rapids
/// "Prescott": a training step took 0.78 s instead of 0.21 s). Where that has happened, `OPENBLAS_CORETYPE` is set to the nearest kernels that the
/// processor can run, and the program starts itself anew: the library has read the variable before main(). A variable that is set is left alone, as is
/// any other BLAS. To be called first in main(), before MPI. Returns where nothing is to be mended, or cannot be.
void choose_blas_kernels(char** argv);

/// What the variable is to be for the kernels `chosen` (openblas_get_corename(); empty: another library); empty: they are good enough.
std::string better_blas_kernels(const std::string& chosen, bool has_avx2_fma, bool has_avx512);

}  // namespace thinwire
