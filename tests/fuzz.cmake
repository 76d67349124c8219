# Fuzz targets; built with clang only, when STRINGLINE_FUZZ is on (preset `fuzz`).
if(STRINGLINE_FUZZ)
  foreach(name schedule plan torch_csv timeline)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL fuzz/fuzz_${name}.cc)
    target_link_libraries(fuzz_${name} PRIVATE stringline_language)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
