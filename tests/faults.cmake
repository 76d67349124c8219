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
  SOURCES faults/healing_test.cc tools/prepared_run.cc tools/tool_process.cc tools/tool_run.cc
  LIBRARIES stringline_tool
  FULL "Kills.*")
add_dependencies(healing_test stringline)
target_compile_definitions(healing_test PRIVATE STRINGLINE_TOOL="$<TARGET_FILE:stringline>")
