# generated/claim_sources.cpp: the SHA-256 of every .cpp and .h of experiments/claims and its folders. Rules of claims whose numbers the claims program
# computes itself are hashed with the files that compute them (experiments/claims/registry.h). As a script (cmake -P) it writes the file; included, it sets that up.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/experiments/claims/*.cpp ${SOURCE}/experiments/claims/*.h)
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

file(GLOB_RECURSE claim_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/experiments/claims/*.cpp ${CMAKE_SOURCE_DIR}/experiments/claims/*.h)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/claim_sources.cpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${CMAKE_BINARY_DIR}/generated/claim_sources.cpp -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${claim_sources} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(thinwire_claims_objects PRIVATE ${CMAKE_BINARY_DIR}/generated/claim_sources.cpp)
