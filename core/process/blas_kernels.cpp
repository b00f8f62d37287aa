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

/// Kernels for AVX2 or more, by OpenBLAS's names, and what they ask of a processor.
struct Kernels {
  std::string name;
  bool ProcessorFeatures::*needs;
};
const std::array<Kernels, 5> modern = {{{"Haswell", &ProcessorFeatures::avx2_fma},
                                        {"Zen", &ProcessorFeatures::avx2_fma},
                                        {"SkylakeX", &ProcessorFeatures::avx512},
                                        {"Cooperlake", &ProcessorFeatures::avx512_bf16},
                                        {"SapphireRapids", &ProcessorFeatures::avx512_fp16}}};
const Kernels* modern_kernels(const std::string& name) {
  const auto found = std::ranges::find(modern, name, &Kernels::name);
  return found == modern.end() ? nullptr : &*found;
}

/// Returns only where that is not possible.
void start_anew(char** argv) {
  std::error_code unreadable;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (!unreadable) execv(self.c_str(), argv);  // by its own name, which is what lists of processes show
  execv("/proc/self/exe", argv);               // replaced since
}

/// Haswell's and Zen's give the same bits.
void take_avx2_kernels(char** argv) {
  const std::string chosen = blas_kernels_in_use();
  const Kernels* known = modern_kernels(chosen);
  if (chosen.empty() || (known != nullptr && known->needs == &ProcessorFeatures::avx2_fma)) return;
  if (const auto asked = Environment::get(variable))  // also what ends the second start
    throw UsageError("THINWIRE_INSTRUCTIONS=avx2, but OpenBLAS has its kernels `" + chosen + "` (" + variable + "=" + *asked + "); unset " + variable);
  if (setenv(variable, "Haswell", 1) == 0) start_anew(argv);
  throw EnvironmentError("THINWIRE_INSTRUCTIONS=avx2, but this program cannot be started anew with OpenBLAS's kernels for AVX2; set " + std::string(variable) + "=Haswell");
}

}  // namespace

std::vector<std::string> tunable_blas_kernels(const ProcessorFeatures& processor) {
  std::vector<std::string> found;
  for (const Kernels& kernels : modern)
    if (processor.*kernels.needs) found.push_back(kernels.name);
  return found;
}

std::string blas_kernels_in_use() {
  using GetName = const char* (*)();
  const auto name = reinterpret_cast<GetName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? std::string() : std::string(name());
}

void take_blas_kernels(const std::string& wanted, char** argv) {
  const std::string has = blas_kernels_in_use();
  if (has == wanted) return;
  if (has.empty()) throw EnvironmentError("OpenBLAS's kernels `" + wanted + "` are asked for, but the BLAS that is loaded is not OpenBLAS; install libopenblas-openmp-dev, or tune anew: doctor --tune FILE");
  const Kernels* known = modern_kernels(wanted);
  const bool runs = known == nullptr || features_of_this_processor().*known->needs;
  if (runs && Environment::get(variable).value_or("") != wanted && setenv(variable, wanted.c_str(), 1) == 0) start_anew(argv);
  throw EnvironmentError("OpenBLAS has no kernels `" + wanted + "` that this processor can run (it took `" + has + "`); tune this machine anew: doctor --tune FILE");
}

std::string better_blas_kernels(const std::string& chosen, const ProcessorFeatures& processor) {
  if (chosen.empty() || modern_kernels(chosen) != nullptr) return "";
  return processor.avx512 ? "SkylakeX" : processor.avx2_fma ? "Haswell" : "";
}

void choose_blas_kernels(char** argv) {
  if (keeps_to_avx2()) return take_avx2_kernels(argv);
  if (Environment::get(variable)) return;  // also what ends the second start
  const std::string better = better_blas_kernels(blas_kernels_in_use(), features_of_this_processor());
  if (better.empty() || setenv(variable, better.c_str(), 1) != 0) return;
  start_anew(argv);
  unsetenv(variable);  // it could not be started anew: the records shall not name kernels that were not used
}

}  // namespace thinwire
