// Included before Highway in every SIMD kernel file of nn: the instruction sets they are not compiled for.
// AVX2 and AVX-512 remain, and the portable baseline; those between gain little here and cost build time.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
