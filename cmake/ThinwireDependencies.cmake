# Every dependency is a distribution package; scripts/setup.sh installs them.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)
set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)

add_library(thinwire_mpi INTERFACE)
target_link_libraries(thinwire_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(thinwire_mpi INTERFACE OMPI_SKIP_MPICXX)

add_library(thinwire_hdf5 INTERFACE)
target_link_libraries(thinwire_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
target_include_directories(thinwire_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})

# cblas.h lies in the alternatives' folder that the pkg-config file names.
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
add_library(thinwire_blas INTERFACE)
target_link_libraries(thinwire_blas INTERFACE PkgConfig::OPENBLAS)

add_library(thinwire_hwy INTERFACE)
target_link_libraries(thinwire_hwy INTERFACE PkgConfig::HWY)

# Debian's dnnl-config.cmake demands OpenCL headers, so the header and library are looked up directly.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(thinwire_onednn INTERFACE)
target_include_directories(thinwire_onednn SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(thinwire_onednn INTERFACE ${DNNL_LIBRARY})

pkg_check_modules(MUPARSER REQUIRED IMPORTED_TARGET muparser)
add_library(thinwire_muparser INTERFACE)
target_link_libraries(thinwire_muparser INTERFACE PkgConfig::MUPARSER)
