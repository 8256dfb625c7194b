# zoetrope_layer(ops DEPS core SOURCES a.cpp b.cpp [LIBS external ...])
# A static library zoetrope_<name>; DEPS are layers below it (all that it may include, see the layering test).
function(zoetrope_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;SOURCES;LIBS" ${ARGN})
  set(target zoetrope_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND zoetrope_)
  target_link_libraries(${target} PUBLIC zoetrope_flags ${ARG_DEPS} PRIVATE ${ARG_LIBS})
endfunction()

# zoetrope_test(ops DEPS ops SOURCES a_test.cpp [LABELS quick]): one binary a folder, every case its own ctest.
# Labels: unit (default), quick, soak, cuda. Cases with Sweep in their name are labelled sweep instead, since they take minutes on a
# CPU; on a GPU they take seconds, and are labelled cuda_sweep. ALONE: patterns of cases that need the device, or its memory, for themselves.
function(zoetrope_test name)
  cmake_parse_arguments(ARG "" "" "DEPS;SOURCES;LIBS;LABELS;ALONE" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(ops_cpu IN_LIST ARG_DEPS)  # what the contexts of tests/support run on
    list(APPEND ARG_SOURCES ${PROJECT_SOURCE_DIR}/tests/support/cpu_device.cpp)
  endif()
  set(target test_${name})
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  list(TRANSFORM ARG_DEPS PREPEND zoetrope_)
  target_link_libraries(${target} PRIVATE zoetrope_flags ${ARG_DEPS} ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE ZOETROPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ZOETROPE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  list(JOIN ARG_ALONE ":" alone)
  set(sweep sweep)
  if("cuda" IN_LIST ARG_LABELS)
    set(sweep cuda_sweep)  # -L cuda and -L sweep find it, -LE sweep leaves it out
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. TEST_FILTER "-*Sweep*:*DISABLED_*:${alone}"
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. TEST_FILTER *Sweep*
                       PROPERTIES LABELS ${sweep} TIMEOUT 3600)
  if(alone)
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. TEST_FILTER "${alone}:-*DISABLED_*"
                         PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300 RUN_SERIAL TRUE)
  endif()
endfunction()
