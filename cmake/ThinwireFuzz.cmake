# THINWIRE_FUZZ: every target reports coverage, and tests/fuzz has an engine, libFuzzer, in THINWIRE_FUZZ_ENGINE.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(thinwire_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(thinwire_options INTERFACE -fsanitize=fuzzer-no-link)
  set(THINWIRE_FUZZ_ENGINE -fsanitize=fuzzer)
else()
  # GCC has no engine of its own, and clang's is a library that any compiler's program can be linked with (tests/fuzz/libfuzzer.cpp counts the coverage for it).
  file(GLOB engines /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-${CMAKE_SYSTEM_PROCESSOR}.a /usr/lib/clang/*/lib/linux/libclang_rt.fuzzer-${CMAKE_SYSTEM_PROCESSOR}.a)
  if(NOT engines)
    message(FATAL_ERROR "THINWIRE_FUZZ needs libFuzzer, which comes with clang: scripts/setup.sh --fuzz installs it")
  endif()
  list(GET engines -1 THINWIRE_FUZZ_ENGINE)
  target_compile_options(thinwire_options INTERFACE -fsanitize-coverage=trace-pc,trace-cmp)
endif()
