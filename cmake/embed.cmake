# zoetrope_embed(target FILES a b ...): the files' bytes as a generated source of `target`, read by config/resources.h.
# Names are relative to configs/, but for THIRD_PARTY.md. Run as a script (-P) it writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include \"config/resources.h\"\n\nnamespace zoetrope {\nnamespace {\n")
  set(rows "")
  set(index 0)
  foreach(name ${NAMES})
    file(READ ${ROOT}/${name} hex HEX)
    get_filename_component(short ${name} NAME)
    if(name MATCHES "^\\.\\./")
      set(name ${short})
    endif()
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND text "const unsigned char data_${index}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", {reinterpret_cast<const char*>(data_${index}), sizeof data_${index} - 1}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND text "const Resource table[] = {\n${rows}};\n}  // namespace\n\n")
  string(APPEND text "std::span<const Resource> resources() { return table; }\n\n}  // namespace zoetrope\n")
  file(WRITE ${OUT} "${text}")
  return()
endif()

function(zoetrope_embed target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/resources_data.cpp)
  set(root ${PROJECT_SOURCE_DIR}/configs)
  list(TRANSFORM ARG_FILES PREPEND ${root}/ OUTPUT_VARIABLE paths)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DNAMES=${ARG_FILES}" -DROOT=${root} -DOUT=${out} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
