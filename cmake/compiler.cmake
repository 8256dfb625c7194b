# One place for everything that every target of ours is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Our asserts guard our own bugs and stay on unless a release asks otherwise; they sit outside hot loops.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree: another clone of the same commit finds the same entries, and no binary names its builder's folders.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_library(zoetrope_flags INTERFACE)
# -Wno-restrict: g++ 12 warns of overlapping copies inside std::string that cannot happen (GCC bug 105651).
# -ffp-contract=off: a fused multiply-add where the source has none would make bytes depend on the compiler's mood.
# CUDA sources have their own (cmake/cuda.cmake).
target_compile_options(zoetrope_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;-Wno-restrict;-ffp-contract=off>")
if(ZOETROPE_SANITIZE)
  target_compile_options(zoetrope_flags INTERFACE -fsanitize=${ZOETROPE_SANITIZE} -fno-omit-frame-pointer -g1 -O1
                         -Wno-maybe-uninitialized)  # instrumented code makes g++ 12 see them where there are none
  target_link_options(zoetrope_flags INTERFACE -fsanitize=${ZOETROPE_SANITIZE})
  if(ZOETROPE_SANITIZE MATCHES "undefined")
    target_compile_options(zoetrope_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
