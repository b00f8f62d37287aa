# thinwire_join(LAYER variable): replaces, in the list of sources that the variable names, those whose code is all private by files that hold eight of them each:
# templates are instantiated once per compiler call, which is most of what short sources cost. Private is a source of one unnamed namespace, with nothing but closing
# braces behind it; there the names of two such sources would meet, so each gets a named namespace within the unnamed one. Sources of another form compile alone.
# As a script (cmake -P) it writes one such file.
set(thinwire_private_source "\nnamespace {\n.*\n}  // namespace\n}  // namespace [a-z:]+\n*$")

function(thinwire_is_private out text)
  string(REGEX MATCHALL "\nnamespace {\n" opened "${text}")
  list(LENGTH opened count)
  if(count EQUAL 1 AND text MATCHES "${thinwire_private_source}")
    set(${out} TRUE PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  set(joined "// Written by cmake/ThinwireJoin.cmake.\n")
  set(number 0)
  foreach(file ${FILES})
    file(READ ${file} text)
    thinwire_is_private(private "${text}")
    if(NOT private)
      message(FATAL_ERROR "${file} is no longer a source that can be joined with others: configure anew (cmake --preset default)")
    endif()
    math(EXPR number "${number} + 1")
    string(REPLACE "\nnamespace {\n" "\nnamespace { namespace source_${number} {\n" text "${text}")
    string(REGEX REPLACE "\n}  // namespace\n}  // namespace ([a-z:]+)\n*$" "\n}}  // namespace\n}  // namespace \\1\n" text "${text}")
    string(APPEND joined "#line 1 \"${file}\"\n${text}")
  endforeach()
  file(WRITE ${OUTPUT} "${joined}")
  return()
endif()

# thinwire_joinable(FILE out): whether it is such a source.
function(thinwire_joinable file out)
  file(READ ${file} text)
  thinwire_is_private(private "${text}")
  set(${out} ${private} PARENT_SCOPE)
endfunction()

# thinwire_joined(NAME out FILES...): the file that holds these, written when it is built.
function(thinwire_joined name out)
  set(output ${CMAKE_BINARY_DIR}/generated/joined/${name}.cpp)
  add_custom_command(OUTPUT ${output} COMMAND ${CMAKE_COMMAND} "-DFILES=${ARGN}" -DOUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/cmake/ThinwireJoin.cmake
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/ThinwireJoin.cmake VERBATIM)
  set(${out} ${output} PARENT_SCOPE)
endfunction()

# thinwire_take_eight(LIST out): moves its first eight, or what there is.
function(thinwire_take_eight list out)
  list(SUBLIST ${list} 0 8 taken)
  list(REMOVE_ITEM ${list} ${taken})
  set(${out} ${taken} PARENT_SCOPE)
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# thinwire_private(LIST YES|NO): keeps of a list of sources those whose code is all private, or the others.
function(thinwire_private list which)
  set(kept "")
  foreach(file ${${list}})
    thinwire_joinable(${file} joins)
    if((joins AND which) OR NOT (joins OR which))
      list(APPEND kept ${file})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

function(thinwire_join layer variable)
  set(sources ${${variable}})
  set(private ${${variable}})
  thinwire_private(private YES)
  list(REMOVE_ITEM sources ${private})
  set(number 0)
  while(private)
    math(EXPR number "${number} + 1")
    thinwire_take_eight(private batch)
    thinwire_joined(${layer}_${number} output ${batch})
    list(APPEND sources ${output})
  endwhile()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
