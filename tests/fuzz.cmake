# Fuzz targets; built with clang only, when STRINGLINE_FUZZ is on (preset `fuzz`).
if(STRINGLINE_FUZZ)
  foreach(name schedule plan torch_csv timeline)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL fuzz/fuzz_${name}.cc)
    target_link_libraries(fuzz_${name} PRIVATE stringline_language)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
  add_executable(fuzz_trace EXCLUDE_FROM_ALL fuzz/fuzz_trace.cc)
  target_link_libraries(fuzz_trace PRIVATE stringline_torch)
  target_link_options(fuzz_trace PRIVATE -fsanitize=fuzzer)
  # The reader of parameter files alone, without the executor around it.
  add_executable(fuzz_safetensors EXCLUDE_FROM_ALL fuzz/fuzz_safetensors.cc
    ${CMAKE_SOURCE_DIR}/executor/checkpoint/json_tree.cc
    ${CMAKE_SOURCE_DIR}/executor/checkpoint/tensor_header.cc)
  target_link_libraries(fuzz_safetensors PRIVATE stringline_base nlohmann_json::nlohmann_json)
  target_link_options(fuzz_safetensors PRIVATE -fsanitize=fuzzer)
endif()
