# generated/claim_sources.cpp: the SHA-256 of every file of experiments/claims. Rules of claims that measure no cell are hashed with the file that
# computes them (experiments/claims/registry.h). As a script (cmake -P) it writes the file; included, it sets that up.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/experiments/claims/*.cpp)
  list(SORT files)
  set(text "// Written by cmake/ThinwireClaimSources.cmake.\n#include \"experiments/claims/source_hash.h\"\n\nnamespace thinwire::claims {\n\n")
  string(APPEND text "const std::map<std::string, std::string>& source_hashes() {\n  static const std::map<std::string, std::string> hashes = {\n")
  foreach(file ${files})
    file(SHA256 ${SOURCE}/${file} hash)
    string(APPEND text "      {\"${file}\", \"${hash}\"},\n")
  endforeach()
  string(APPEND text "  };\n  return hashes;\n}\n\n}  // namespace thinwire::claims\n")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

file(GLOB_RECURSE claim_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/experiments/claims/*.cpp)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/claim_sources.cpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${CMAKE_BINARY_DIR}/generated/claim_sources.cpp -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${claim_sources} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(thinwire_claims_objects PRIVATE ${CMAKE_BINARY_DIR}/generated/claim_sources.cpp)
