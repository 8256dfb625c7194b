# ${CMAKE_BINARY_DIR}/generated/version.h with ZOETROPE_VERSION and ZOETROPE_GIT, written at build time so that it follows
# the commit, and only when it changes. Users link zoetrope_version: `zoetrope_layer(cli ... LIBS zoetrope_version)`.
# The file is included twice: by CMakeLists.txt (defines the target) and by `cmake -P` (writes the header).
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  add_custom_target(zoetrope_version_header
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DHEADER=${generated}/version.h
            -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${generated}/version.h VERBATIM)
  add_library(zoetrope_version INTERFACE)
  target_include_directories(zoetrope_version INTERFACE $<BUILD_INTERFACE:${generated}>)
  add_dependencies(zoetrope_version zoetrope_version_header)
  return()
endif()

set(hash unknown)  # a source archive has no history
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude *
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(hash ${described})
  endif()
endif()
set(text "#pragma once\n#define ZOETROPE_VERSION \"${VERSION}\"\n#define ZOETROPE_GIT \"${hash}\"\n")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
