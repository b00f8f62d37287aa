#include "core/process/blas_kernels.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/process/environment.h"

namespace thinwire {
namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

/// Kernels for AVX2 or more, by OpenBLAS's names.
const std::array<std::string, 5> modern = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"};

/// Returns only where that is not possible.
void start_anew(char** argv) {
  std::error_code unreadable;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (!unreadable) execv(self.c_str(), argv);  // by its own name, which is what lists of processes show
  execv("/proc/self/exe", argv);               // replaced since
}

}  // namespace

std::span<const std::string> tunable_blas_kernels() { return modern; }

std::string blas_kernels_in_use() {
  using GetName = const char* (*)();
  const auto name = reinterpret_cast<GetName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? std::string() : std::string(name());
}

void take_blas_kernels(const std::string& wanted, char** argv) {
  const std::string has = blas_kernels_in_use();
  if (has == wanted) return;
  if (has.empty()) throw EnvironmentError("OpenBLAS's kernels `" + wanted + "` are asked for, but the BLAS that is loaded is not OpenBLAS; install libopenblas-openmp-dev, or tune anew: doctor --tune FILE");
  if (Environment::get(variable).value_or("") != wanted && setenv(variable, wanted.c_str(), 1) == 0) start_anew(argv);
  throw EnvironmentError("OpenBLAS has no kernels `" + wanted + "` that this processor can run (it took `" + has + "`); tune this machine anew: doctor --tune FILE");
}

std::string better_blas_kernels(const std::string& chosen, bool has_avx2_fma, bool has_avx512) {
  if (chosen.empty() || std::find(modern.begin(), modern.end(), chosen) != modern.end()) return "";
  return has_avx512 ? "SkylakeX" : has_avx2_fma ? "Haswell" : "";
}

void choose_blas_kernels([[maybe_unused]] char** argv) {
#if defined(__x86_64__)
  if (Environment::get(variable)) return;  // also what ends the second start
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  const std::string better = better_blas_kernels(blas_kernels_in_use(), avx2, avx512);
  if (better.empty() || setenv(variable, better.c_str(), 1) != 0) return;
  start_anew(argv);
  unsetenv(variable);  // it could not be started anew: the records shall not name kernels that were not used
#endif
}

}  // namespace thinwire
