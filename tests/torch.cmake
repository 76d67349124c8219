# Files in torch's own runtime. Which python has torch is looked up when they run; without one they
# are skipped.
function(stringline_torch_test name file)
  add_test(NAME ${name}
    COMMAND ${CMAKE_SOURCE_DIR}/tools/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/${file}
      $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS full SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON)
endfunction()

stringline_torch_test(torch_lint_sample lint_sample_test.py)
stringline_torch_test(torch_suite suite_test.py)
