// Vector code on every instruction set that this processor has.
#pragma once

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <string>

#include "kernels/convert.h"

namespace thinwire::testing {

/// Runs `check` once per SIMD target, as another processor would.
template <typename Check>
void on_every_target(const Check& check) {
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(std::string("SIMD target ") + simd_target());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace thinwire::testing
