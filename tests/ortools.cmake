# The optimiser beside OR-Tools' exact solver, on random small cases. The python with OR-Tools is
# looked up when the test runs; without it the test is skipped.
add_test(NAME ortools_exact
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/ortools/run
    ${CMAKE_SOURCE_DIR}/tests/ortools/exact_test.py $<TARGET_FILE:stringline> --cases 500)
set_tests_properties(ortools_exact PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600)
