# Traces read back with protobuf's own decoder; skipped without protobuf.
if(Python3_FOUND)
  add_test(NAME perfetto_reads
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/perfetto/read_test.py
      $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
  set_tests_properties(perfetto_reads PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 100)
endif()
