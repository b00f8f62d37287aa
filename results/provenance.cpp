#include "results/provenance.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>

#include "core/joined.h"
#include "core/process/build_info.h"
#include "core/process/environment.h"
#include "core/sha256.h"
#include "results/hdf5/hdf5.h"

namespace thinwire::results {

namespace {

// Read once per process: a bench writes one record per cell, and /proc/cpuinfo of a large machine is long.
const std::string& cpu_description() {
  static const std::string description = [] {
    std::ifstream file("/proc/cpuinfo");
    std::string line, model = "unknown processor";
    while (std::getline(file, line)) {
      if (!line.starts_with("model name")) continue;
      model = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
    cpu_set_t usable;
    CPU_ZERO(&usable);
    const int cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
    return model + ", " + std::to_string(cores) + " usable cores";
  }();
  return description;
}

// Hashed once per process: a bench writes one record per cell.
const std::string& binary_hash() {
  static const std::string hash = hash_of_binary("/proc/self/exe");
  return hash;
}

std::string environment_text() {
  std::string text;
  for (const std::string& name : recorded_environment())
    if (const auto value = Environment::get(name.c_str()))
      text += (text.empty() ? "" : "\n") + name + "=" + *value;
  return text;
}

std::string version_of(const ProvenanceInput& input, const char* key) {
  const auto found = input.versions.find(key);
  return found == input.versions.end() ? std::string() : found->second;
}

}  // namespace

// Asked of the library that is loaded into this process, if one is: the package that was compiled against may
// differ from it.
std::string loaded_blas() {
  using GetConfig = const char* (*)();
  const auto get = reinterpret_cast<GetConfig>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  const auto core = reinterpret_cast<GetConfig>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (get == nullptr) return {};
  return std::string(get()) + (core == nullptr ? "" : " core " + std::string(core()));
}

const std::vector<std::string>& recorded_environment() {
  static const std::vector<std::string> names = {"OMP_NUM_THREADS",
                                                 "OMP_PROC_BIND",
                                                 "OMP_PLACES",
                                                 "OPENBLAS_NUM_THREADS",
                                                 "OPENBLAS_CORETYPE",
                                                 "ONEDNN_MAX_CPU_ISA",
                                                 "THINWIRE_MACHINE",
                                                 "THINWIRE_INSTRUCTIONS",
                                                 "THINWIRE_SLOW_BF16",
                                                 "OMPI_MCA_mpi_yield_when_idle",
                                                 "OMPI_MCA_btl",
                                                 "OMPI_MCA_pml",
                                                 "OMPI_MCA_btl_tcp_links",
                                                 "OMPI_MCA_btl_tcp_if_include",
                                                 "HDF5_USE_FILE_LOCKING",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "NCCL_ALGO",
                                                 "NCCL_PROTO",
                                                 "SLURM_JOB_ID",
                                                 "SLURM_JOB_PARTITION",
                                                 "SLURM_JOB_NUM_NODES",
                                                 "THINWIRE_ATTEMPT", "THINWIRE_RULES",
                                                 "THINWIRE_LOG",
                                                 "THINWIRE_CUDA_MODULE"};
  return names;
}

// A runner asks for the same programs again and again, tens of megabytes each: a file that looks as it did when it was hashed is not read again.
std::string hash_of_binary(const std::string& path) {
  using Looks = std::tuple<dev_t, ino_t, off_t, time_t, long, time_t, long>;
  static std::mutex mutex;
  static std::map<Looks, std::string> hashed;
  struct stat status {};
  std::ifstream file(path, std::ios::binary);
  if (!file || stat(path.c_str(), &status) != 0) return {};
  const Looks looks{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
  const std::lock_guard lock(mutex);
  std::string& hash = hashed[looks];
  if (!hash.empty()) return hash;
  Sha256 sha;
  std::vector<char> block(1 << 18);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    sha.update(std::string_view(block.data(), static_cast<std::size_t>(file.gcount())));
  return hash = sha.hex();
}

std::string timestamp_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32], whole[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(whole, sizeof whole, "%s.%03dZ", text, static_cast<int>(ms % 1000));
  return whole;
}

std::string shell_quoted(const std::string& argument) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) return argument;
  std::string quoted = "'";
  for (const char c : argument) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string shell_command(const std::vector<std::string>& arguments) {
  return joined(arguments, " ", shell_quoted);
}

std::string hashed_hostname() {
  utsname names;
  return uname(&names) == 0 ? sha256_hex(names.nodename).substr(0, 16) : std::string();
}

Provenance collect_provenance(const ProvenanceInput& input) {
  Provenance p;
  p.started = timestamp_now();
  p.launch = input.launch.empty() ? p.started + "-" + std::to_string(getpid()) : input.launch;
  p.program = input.program;
  p.command = shell_command(input.command);
  p.commit = build_info().commit;
  p.dirty_hash = build_info().dirty_hash;
  p.binary_hash = binary_hash();
  p.compiler = build_info().compiler;
  p.flags = build_info().flags;
  p.mpi = version_of(input, "mpi");
  p.blas = version_of(input, "blas");
  if (p.blas.empty()) p.blas = loaded_blas();
  p.hdf5 = h5::library_version();
  p.cuda = version_of(input, "cuda");
  p.nccl = version_of(input, "nccl");
  p.cpu = cpu_description();
  p.gpu = input.gpu;
  p.hostname_hash = hashed_hostname();
  p.rank_map = input.rank_map;
  p.seed = input.seed;
  p.config_hash = input.config_hash;
  p.corpus = input.corpus;
  p.environment = environment_text();
  return p;
}

}  // namespace thinwire::results
