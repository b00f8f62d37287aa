// Included before Highway in every file of vector code: the instruction sets they are not compiled for.
// AVX2 and AVX-512 remain, and the portable baseline; those between are of processors before 2013 and cost a third of the build time of vector code.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
