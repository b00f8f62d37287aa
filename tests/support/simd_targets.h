// A body run once for every instruction set that this processor has and the vector code was compiled for.
#pragma once

#include <gtest/gtest.h>

#include "hwy/highway.h"

namespace thinwire::testing {

template <typename Body>
void on_every_simd_target(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace thinwire::testing
