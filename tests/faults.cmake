# Training runs of several processes in which something goes wrong at every place.
stringline_test(faults_test
  SOURCES faults/drift_test.cc faults/faults_test.cc faults/faulty_backend.cc nccl/strangers.cc
  LIBRARIES stringline_tool stringline_check_rows)

# Signals and faults of the tool's own processes.
stringline_test(run_records_test
  SOURCES tools/prepared_run.cc tools/run_records_test.cc tools/tool_process.cc tools/tool_run.cc
  LIBRARIES stringline_tool nlohmann_json::nlohmann_json)
add_dependencies(run_records_test stringline)
target_compile_definitions(run_records_test PRIVATE STRINGLINE_TOOL="$<TARGET_FILE:stringline>")

# Processes of a run that heals are killed.
stringline_test(healing_test
  SOURCES tools/run_healing_test.cc tools/prepared_run.cc tools/tool_process.cc tools/tool_run.cc
  LIBRARIES stringline_tool
  FULL "Kills.*")
add_dependencies(healing_test stringline)
target_compile_definitions(healing_test PRIVATE STRINGLINE_TOOL="$<TARGET_FILE:stringline>")

# A thousand faults of real runs, and 200 kills in their saves (tests/faults/TABLE.md).
add_test(NAME faults_judge
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/faults/judge.py $<TARGET_FILE:stringline>
    ${CMAKE_CURRENT_BINARY_DIR}/faults --csv ${CMAKE_CURRENT_BINARY_DIR}/faults.csv
    --page ${CMAKE_CURRENT_BINARY_DIR}/faults.md)
set_tests_properties(faults_judge PROPERTIES LABELS full TIMEOUT 3600 RUN_SERIAL ON)

# Two hosts in network namespaces, and the cable between them; 77: no namespaces can be made here.
add_test(NAME two_hosts
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/faults/two_hosts.py $<TARGET_FILE:stringline>
    ${CMAKE_CURRENT_BINARY_DIR}/two_hosts)
set_tests_properties(two_hosts PROPERTIES LABELS ci TIMEOUT 600 SKIP_RETURN_CODE 77)
