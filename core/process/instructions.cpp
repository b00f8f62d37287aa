#include "core/process/instructions.h"

#include "core/simd_targets.h"

#include <hwy/targets.h>

#include <cstdlib>

#include "core/error.h"
#include "core/process/environment.h"

namespace thinwire {
namespace {

ProcessorFeatures all_features() {
  ProcessorFeatures has;
#if defined(__x86_64__)
  has.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  has.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
  has.avx512_bf16 = has.avx512 && __builtin_cpu_supports("avx512bf16");
  has.avx512_fp16 = has.avx512_bf16 && __builtin_cpu_supports("avx512fp16");
#endif
  return has;
}

}  // namespace

bool keeps_to_avx2() {
  const auto wanted = Environment::get("THINWIRE_INSTRUCTIONS");
  if (!wanted) return false;
  if (*wanted != "avx2") throw UsageError("THINWIRE_INSTRUCTIONS=" + *wanted + " is not avx2; leave it out for all that the processor has");
  return true;
}

ProcessorFeatures features_of_this_processor() {
  const ProcessorFeatures has = all_features();
  return keeps_to_avx2() ? ProcessorFeatures{.avx2_fma = has.avx2_fma} : has;
}

void limit_instructions() {
  if (!keeps_to_avx2()) return;
  if (!all_features().avx2_fma) throw EnvironmentError("THINWIRE_INSTRUCTIONS=avx2, but this processor has no AVX2 and FMA");
#if defined(__x86_64__)
  hwy::DisableTargets(HWY_AVX2 - 1);  // Highway numbers better targets lower
#endif
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);  // read at its first use
}

}  // namespace thinwire
