# The CUDA code is one module (libthinwire_cuda.so) that programs open at run time when a device is asked
# for: linking cuBLAS and NCCL into every program triples the launch time of a CPU job.
if(NOT THINWIRE_CUDA)
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No CUDA compiler: the device module is not built; host code is complete without it")
  return()
endif()
set(architectures 80-real 90)
if(DEFINED ENV{CUDAARCHS}) # CMake's own variable
  set(architectures $ENV{CUDAARCHS})
endif()
set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "sm_80, and sm_90 with PTX, unless the environment's CUDAARCHS says else")
enable_language(CUDA)
# CMake 3.25 does not know nvcc's C++20 option by itself.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)
set(cuda_folders ${CMAKE_SOURCE_DIR}/core ${CMAKE_SOURCE_DIR}/kernels ${CMAKE_SOURCE_DIR}/collectives ${THINWIRE_EXTRA_SOURCES})
if(THINWIRE_TESTS) # tests on a GPU use what they bring along
  list(APPEND cuda_folders ${CMAKE_SOURCE_DIR}/tests/fixtures)
endif()
list(TRANSFORM cuda_folders APPEND /*.cu)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${cuda_folders})
if(cuda_sources)
  if(THINWIRE_UNITY)
    thinwire_unite(cuda_sources ${cuda_sources})
  endif()
  add_library(thinwire_cuda MODULE ${cuda_sources})
  target_include_directories(thinwire_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(thinwire_cuda PRIVATE CUDA::cudart_static)
  # Relaxed constexpr: kernels use the generator of core/random.h itself. What ptxas reports of each kernel is kept beside its
  # object by the launcher, so that holding registers and spills to limits needs no second compilation.
  target_compile_options(thinwire_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xptxas=-v --Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-fvisibility=hidden>)
  set(launcher ${CMAKE_SOURCE_DIR}/scripts/record_cuda_resources.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(thinwire_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib CXX_VISIBILITY_PRESET hidden
    CUDA_COMPILER_LAUNCHER "${launcher}")
endif()
