#include "core/process/blas_kernels.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <string_view>

#include "core/process/environment.h"

namespace thinwire {
namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

/// Kernels for AVX2 or more, by OpenBLAS's names.
constexpr std::array<std::string_view, 5> modern = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"};

std::string chosen_kernels() {
  using GetName = const char* (*)();
  const auto name = reinterpret_cast<GetName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? std::string() : std::string(name());
}

}  // namespace

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
  const std::string better = better_blas_kernels(chosen_kernels(), avx2, avx512);
  if (better.empty() || setenv(variable, better.c_str(), 1) != 0) return;
  std::error_code unreadable;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (!unreadable) execv(self.c_str(), argv);  // by its own name, which is what lists of processes show
  execv("/proc/self/exe", argv);               // replaced since
  unsetenv(variable);  // it could not be started anew: the records shall not name kernels that were not used
#endif
}

}  // namespace thinwire
