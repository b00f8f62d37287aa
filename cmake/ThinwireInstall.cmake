# cmake --install BUILD --prefix DIR [--strip], and archives by `cpack --config BUILD/CPackConfig.cmake`: programs in bin/, the
# device module in lib/, everything that is read at run time in share/thinwire/. The tree may be moved anywhere afterwards: programs
# find the rest from where they lie (docs/install-without-root.md).
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATAROOTDIR}/thinwire)

get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(programs "")
foreach(target ${targets})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    list(APPEND programs ${target})
  endif()
endforeach()
# Libraries from outside the system's folders (Spack, modules) are found again only where the link path is kept; the
# project's own are found beside the programs in any case.
option(THINWIRE_KEEP_LINK_PATH "Installed programs remember the folders of the libraries they were linked with" OFF)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" INSTALL_RPATH_USE_LINK_PATH ${THINWIRE_KEEP_LINK_PATH})
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET thinwire_cuda)
  set_target_properties(thinwire_cuda PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ${THINWIRE_KEEP_LINK_PATH})
  install(TARGETS thinwire_cuda LIBRARY DESTINATION lib) # programs look in bin/../lib
endif()

install(DIRECTORY experiments/lab DESTINATION ${share} USE_SOURCE_PERMISSIONS)
foreach(folder experiments/studies experiments/machines experiments/race/courses experiments/text_tasks plots docs packaging)
  install(DIRECTORY ${folder} DESTINATION ${share} PATTERN "__pycache__" EXCLUDE)
endforeach()
install(DIRECTORY results/published DESTINATION ${share}/results)
install(FILES experiments/claims/registry.lock DESTINATION ${share}/experiments/claims)
install(FILES docs/papers/claims.csv DESTINATION ${share}/docs/papers)
install(FILES README.md LICENSE CITATION.cff DESTINATION ${share})
install(FILES ARTIFACT.md DESTINATION ${share} OPTIONAL)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME thinwire)
set(CPACK_PACKAGE_FILE_NAME thinwire-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
