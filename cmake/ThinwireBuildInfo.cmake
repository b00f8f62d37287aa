# generated/thinwire_build_info.h: source commit, uncommitted changes, compiler. Looked at in every build, rewritten
# only when it changed, and included by one .cpp only: a commit does not recompile the world.
# As a script (cmake -P) it writes the header; included, it sets that up.
if(CMAKE_SCRIPT_MODE_FILE)
  find_program(git_program git)
  set(commit "")
  set(dirty "")
  # What a binary is made of: a change of a document or a plot does not make it another one.
  set(code CMakeLists.txt cmake core results kernels collectives models bench experiments)
  if(git_program)
    execute_process(COMMAND ${git_program} -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${git_program} -C ${SOURCE} diff HEAD -- ${code} OUTPUT_VARIABLE changes ERROR_QUIET)
    execute_process(COMMAND ${git_program} -C ${SOURCE} ls-files --others --exclude-standard -- ${code}
                    OUTPUT_VARIABLE untracked OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(untracked)
      string(REPLACE "\n" ";" untracked "${untracked}")
      foreach(file ${untracked})
        if(EXISTS "${SOURCE}/${file}" AND NOT IS_DIRECTORY "${SOURCE}/${file}")
          file(SHA256 "${SOURCE}/${file}" hash)
          string(APPEND changes "${file} ${hash}\n")
        endif()
      endforeach()
    endif()
    if(NOT "${changes}" STREQUAL "")
      string(SHA256 dirty "${changes}")
    endif()
  endif()
  set(text "// Written by cmake/ThinwireBuildInfo.cmake in every build that changes it.\n#pragma once\n")
  string(APPEND text "#define THINWIRE_BUILD_COMMIT \"${commit}\"\n")
  string(APPEND text "#define THINWIRE_BUILD_DIRTY_HASH \"${dirty}\"\n")
  string(APPEND text "#define THINWIRE_BUILD_COMPILER \"${COMPILER}\"\n")
  string(APPEND text "#define THINWIRE_BUILD_FLAGS \"${FLAGS}\"\n")
  set(old "")
  if(EXISTS ${HEADER})
    file(READ ${HEADER} old)
  endif()
  if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${HEADER} "${text}")
  endif()
  return()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(STRIP "${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} ${THINWIRE_SANITIZE}" build_flags)
string(REGEX REPLACE " +" " " build_flags "${build_flags}")
string(REGEX REPLACE "[\\\\\"]" "'" build_flags "${build_flags}")
set(build_info ${CMAKE_BINARY_DIR}/generated/thinwire_build_info.h)
file(WRITE ${CMAKE_BINARY_DIR}/generated/thinwire_version.h.new "#pragma once\n#define THINWIRE_VERSION \"${PROJECT_VERSION}\"\n#define THINWIRE_SOURCE_FOLDER \"${CMAKE_SOURCE_DIR}\"\n")
configure_file(${CMAKE_BINARY_DIR}/generated/thinwire_version.h.new ${CMAKE_BINARY_DIR}/generated/thinwire_version.h COPYONLY)
add_custom_target(thinwire_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DHEADER=${build_info}
          "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" "-DFLAGS=${build_flags}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${build_info}
  VERBATIM)
add_dependencies(thinwire_core thinwire_build_info)
