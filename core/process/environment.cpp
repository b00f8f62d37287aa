#include "core/process/environment.h"

#include <charconv>
#include <cstdlib>

namespace thinwire {

const std::vector<Environment::Variable>& Environment::documented() {
  static const std::vector<Variable> all = {
      {"THINWIRE_LOG", "least level of messages on stderr: debug, info (default), warning, error"},
      {"THINWIRE_CUDA_MODULE", "path of libthinwire_cuda.so (default: beside the program, ../lib, loader's path)"},
      {"THINWIRE_CUDA_AWARE_MPI", "1: hand device addresses to MPI; 0: stage through page-locked memory (default: as Open MPI says it can)"},
      {"THINWIRE_DEVICE_TRANSPORT", "how tensors on devices travel: nccl, staged (through host memory), or automatic (default: NCCL where each rank has a device of its own)"},
      {"THINWIRE_NCCL_LIMIT", "seconds after which an NCCL call that is not under way, the meeting of a communicator's ranks too, is given up (default 120)"},
      {"THINWIRE_WAIT", "how waiting ranks spend their time: spin, nap, auto (default; nap when ranks outnumber cores)"},
      {"THINWIRE_WATCHDOG", "seconds without progress after which a waiting rank ends the job (default 120; 0 = never)"},
      {"THINWIRE_LINK", "set by experiments/lab/launch.sh: the link it started the ranks in, e.g. netns:1gbit"},
      {"THINWIRE_LINK_SINK", "set by experiments/lab/launch.sh: address at the switch that drops what reaches it (collectives/link/link_drain.h)"},
      {"THINWIRE_MACHINE", "machine file of `doctor --tune`: the library and kernels that multiply matrices on this machine (default: none, OpenBLAS as it comes)"},
      {"THINWIRE_INSTRUCTIONS", "avx2: compute as a processor without AVX-512 does, to the last bit (default: with all that the processor has)"},
      {"THINWIRE_SLOW_BF16", "1: products in bf16 where the processor cannot multiply bf16 itself, through oneDNN's conversions; right but slow, for tests"},
      {"THINWIRE_FSYNC", "0: finished files appear without being flushed to disk: whole after a killed process, maybe not after a power loss; for tests"},
      {"THINWIRE_SOURCE_DIR", "the repository, where the program does not lie in a folder below it (doctor)"},
      {"OMPI_COMM_WORLD_RANK", "set by mpirun; read before MPI_Init, so that one rank answers what all are asked"},
      {"OMPI_COMM_WORLD_SIZE", "set by mpirun; read before MPI_Init: alone or among others"},
      {"PMIX_RANK", "set by srun --mpi=pmix; as OMPI_COMM_WORLD_RANK"},
      {"SLURM_NTASKS", "set by srun; with PMIX_RANK as OMPI_COMM_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "set by mpirun; which GPU of a machine profile a rank gets"},
      {"SLURM_LOCALID", "set by srun; as OMPI_COMM_WORLD_LOCAL_RANK"},
      {"SLURM_JOB_ID", "set in a job; the job that sweep task asks about and requeues"},
      {"SLURM_ARRAY_JOB_ID", "set in a job of an array; shown as the owner of cells"},
      {"SLURM_ARRAY_TASK_ID", "set in a job of an array; the task that sweep task runs"},
      {"SLURM_RESTART_COUNT", "set in a job that was requeued; shown in the task's journal"},
  };
  return all;
}

std::optional<std::string> Environment::get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

static std::optional<int> integer(const char* name) {
  const auto text = Environment::get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

std::string Environment::log_level() { return get("THINWIRE_LOG").value_or("info"); }
std::optional<std::string> Environment::cuda_module() { return get("THINWIRE_CUDA_MODULE"); }

std::optional<int> Environment::launch_rank() {
  if (const auto rank = integer("OMPI_COMM_WORLD_RANK")) return rank;
  return integer("PMIX_RANK");
}
std::optional<int> Environment::launch_size() {
  if (const auto size = integer("OMPI_COMM_WORLD_SIZE")) return size;
  return get("PMIX_RANK") ? integer("SLURM_NTASKS") : std::nullopt;
}

}  // namespace thinwire
