# Language level, warnings and optimisation, carried by one interface target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON) # for clang-tidy and tests/structure/test_headers.py
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -g1 keeps back-traces readable at a third of the link time and size of full debug information.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

add_library(thinwire_options INTERFACE)
target_include_directories(thinwire_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(thinwire_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror>)
if(THINWIRE_SANITIZE)
  target_compile_options(thinwire_options INTERFACE -fsanitize=${THINWIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(thinwire_options INTERFACE -fsanitize=${THINWIRE_SANITIZE})
endif()

if(THINWIRE_FUZZ)
  include(ThinwireFuzz)
endif()

# ---- what makes a build from nothing short (docs/building.md) ----
option(THINWIRE_PRECOMPILE "Precompiled headers" ON)
option(THINWIRE_UNITY "Several sources per compiler call: in layers without kernels, and of CUDA" ON)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # From 128 MB on GCC walks its heap for garbage, again and again. Without that the largest call that was measured keeps 1.03 GB.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1500000>)
endif()
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold THINWIRE_HAS_GOLD)
if(THINWIRE_HAS_GOLD AND NOT THINWIRE_SANITIZE)
  add_link_options(-fuse-ld=gold)  # half the time of the default linker, and there are a hundred programs
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers need these; without them ccache passes every call on.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
if(THINWIRE_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CCACHE_PROGRAM)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
