// Every environment variable that thinwire itself reads, in one place. Libraries below have their own
// (OMP_NUM_THREADS, OMPI_*, HDF5_USE_FILE_LOCKING); they are not read here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thinwire {

class Environment {
 public:
  /// The variables of this process. Read at each call: tests and launchers may set them late.
  struct Variable {
    const char* name;
    const char* meaning;
  };
  static const std::vector<Variable>& documented();

  /// THINWIRE_LOG: least level that is printed: debug | info | warning | error. Default info.
  static std::string log_level();
  /// THINWIRE_CUDA_MODULE: path of libthinwire_cuda.so, instead of looking beside the program.
  static std::optional<std::string> cuda_module();
  /// Rank and number of ranks that mpirun announced to this process, before MPI_Init
  /// (OMPI_COMM_WORLD_RANK / _SIZE; srun: PMIX_RANK / SLURM_NTASKS). Empty when started without a launcher.
  static std::optional<int> launch_rank();
  static std::optional<int> launch_size();

  /// Any variable by name; empty when unset or set to nothing.
  static std::optional<std::string> get(const char* name);
};

}  // namespace thinwire
