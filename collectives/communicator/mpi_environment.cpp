#include <mpi.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <vector>

#include "collectives/process/node_info.h"
#include "collectives/communicator/mpi_communicator.h"
#include "collectives/process/mpi_error.h"
#include "collectives/process/watchdog.h"
#include "core/clock.h"
#include "core/process/environment.h"
#include "core/process/log.h"
#include "core/process/main_guard.h"
#include "core/random.h"

namespace thinwire {

namespace detail {

void throw_mpi(int code, const char* expression, const char* file, int line) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RuntimeFailure(std::string(expression) + " failed: " + text + " (" + file + ":" +
                       std::to_string(line) +
                       "); a rank may be lost or its host unreachable, see the messages of the other ranks");
}

}  // namespace detail

namespace {

bool we_initialised = false;
int abort_hook = 0;
int lock_hook = 0;

// Ranks of one machine have one kernel, whatever network namespace or UTS name each lives in.
std::uint64_t machine_fingerprint() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!(file >> id)) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    id = host;
  }
  return hash_name(id);
}

// Which ranks share this machine, and a number that names the job for machine-wide locks.
void describe_machine() {
  int rank = 0, size = 1;
  TW_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  TW_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  const std::uint64_t mine = machine_fingerprint();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  TW_MPI(MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD));
  int here = 0, before_me = 0;
  for (int r = 0; r < size; ++r) {
    const bool shares = all[static_cast<std::size_t>(r)] == mine;
    here += shares ? 1 : 0;
    before_me += shares && r < rank ? 1 : 0;
  }
  std::uint64_t job = mix_stream(static_cast<std::uint64_t>(now_ns()), static_cast<std::uint64_t>(getpid()));
  TW_MPI(MPI_Bcast(&job, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  NodeInfo::set(here, before_me, job, mine);
  // Each rank its share of the cores, unless the user decided. Threads of several ranks on one core spin in
  // OpenMP's barriers for the others' whole time slices: sums of 256 KiB then took 60 ms instead of 0.1 (4
  // ranks, 2 cores).
  if (!Environment::get("OMP_NUM_THREADS")) omp_set_num_threads(std::max(1, NodeInfo::cores() / here));
}

}  // namespace

MpiEnvironment::MpiEnvironment(int* argc, char*** argv) : exceptions_(std::uncaught_exceptions()) {
  int already = 0;
  MPI_Initialized(&already);
  if (!already) {
    int provided = 0;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
      throw EnvironmentError("MPI_Init_thread failed; run `doctor` to see what this machine's MPI lacks");
    }
    we_initialised = true;
    if (provided < MPI_THREAD_MULTIPLE) {
      throw EnvironmentError(
          "this MPI library gives no MPI_THREAD_MULTIPLE (level " + std::to_string(provided) +
          "); the watchdog must be able to abort from its thread. Use Open MPI 4 or newer");
    }
    lock_hook = add_failure_hook(50, [](int, const std::string&) { NodeInfo::remove_lock(); });
    abort_hook =
        add_failure_hook(100, [](int status, const std::string&) { MPI_Abort(MPI_COMM_WORLD, status); });
  }
  TW_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  int rank = 0;
  TW_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  set_log_rank(rank);
  describe_machine();
  Watchdog::start(rank);
}

MpiEnvironment::~MpiEnvironment() {
  // Unwinding: the other ranks may be waiting for this one, so MPI_Finalize would hang and the abort hook
  // is still needed by guarded_main.
  if (std::uncaught_exceptions() > exceptions_) return;
  Watchdog::stop();
  NodeInfo::remove_lock();
  if (!we_initialised) return;
  remove_failure_hook(lock_hook);
  remove_failure_hook(abort_hook);
  MPI_Finalize();
  we_initialised = false;
}

std::unique_ptr<Communicator> MpiEnvironment::world() {
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, false);
}

std::string MpiEnvironment::library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  TW_MPI(MPI_Get_library_version(text, &length));
  const char* end = std::strpbrk(text, ",\n");
  return std::string(text, end != nullptr ? static_cast<std::size_t>(end - text) : std::strlen(text));
}

}  // namespace thinwire
