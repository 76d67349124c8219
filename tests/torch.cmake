# Files in torch's own runtime. The python with torch is looked up when the tests run; without torch
# they are skipped.
function(stringline_torch_test name file)
  add_test(NAME ${name}
    COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/${file}
      $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON)
endfunction()

stringline_torch_test(torch_lint_sample lint_sample_test.py)
stringline_torch_test(torch_suite suite_test.py)
set_tests_properties(torch_suite PROPERTIES LABELS full)
# A few faults of collectives over gloo and of messages, and a hundred.
stringline_torch_test(torch_diagnose diagnose_test.py)
add_test(NAME torch_diagnose_all
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/diagnose_test.py
    $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR} 50 56)
set_tests_properties(torch_diagnose_all PROPERTIES
  LABELS full SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON)
# Megatron's orders from its arguments, beside Megatron Core's own functions: hundreds of imports.
stringline_torch_test(torch_megatron_order megatron_order_test.py)
set_tests_properties(torch_megatron_order PROPERTIES LABELS full)
# The profiler's traces of torch's runtime, imported. This test and the next take more than a minute
# each, and trace_import_test reads such traces in a second.
stringline_torch_test(torch_trace trace_test.py)
set_tests_properties(torch_trace PROPERTIES LABELS full)

# Traces of torch's schedules without PP: ranges, imported; trace_import_test reads three of them.
stringline_torch_test(torch_unnamed_trace unnamed_trace_test.py)
set_tests_properties(torch_unnamed_trace PROPERTIES LABELS full)

# The figures of these traces beside those of Holistic Trace Analysis, if installed.
add_executable(trace_writer torch/trace_writer.cc schedlang/written_trace.cc)
target_link_libraries(trace_writer PRIVATE stringline_answers)
add_test(NAME torch_hta
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/hta_test.py
    $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR} $<TARGET_FILE:trace_writer>)
set_tests_properties(torch_hta PROPERTIES
  LABELS full SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON)
