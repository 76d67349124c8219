# Exported files in torch's own runtime; skipped where torch is missing.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME torch_runtime
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/torch/runtime_test.py
      $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
  set_tests_properties(torch_runtime PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 400 RUN_SERIAL ON)
endif()
