# The Python package: built as a wheel, installed into an empty environment, tested beside the tool.
# Skipped without its environment (tools/install --python).
add_test(NAME python_package
  COMMAND ${CMAKE_SOURCE_DIR}/tools/wheel --test $<TARGET_FILE:stringline>)
set_tests_properties(python_package PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 RUN_SERIAL ON)

# The source distribution, as pip builds it for a user: module and command line. Ten minutes of two
# cores, and PyPI; skipped without the environment that tools/wheel makes.
add_test(NAME source_distribution COMMAND ${CMAKE_SOURCE_DIR}/tools/wheel --sources)
set_tests_properties(source_distribution PROPERTIES
  LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600 RUN_SERIAL ON)

# The same beside torch, with the wheel of the test before: torch's schedule objects, every schedule
# of the library performed by torch, TorchTitan, and the notebooks of the examples.
function(stringline_torch_python_test name file)
  add_test(NAME ${name}
    COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/${file}
      ${CMAKE_SOURCE_DIR}/build/wheel/site ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON DEPENDS python_package)
endfunction()

stringline_torch_python_test(torch_python_package python_test.py)
stringline_torch_python_test(torch_runtime runtime_test.py)
stringline_torch_python_test(torch_titan titan_test.py)
stringline_torch_python_test(torch_notebook notebook_test.py)
set_tests_properties(torch_notebook PROPERTIES LABELS full)
# The examples' commands `$ python …`: some of them show how messages hang, and that takes seconds.
stringline_torch_python_test(torch_example example_test.py)
set_tests_properties(torch_example PROPERTIES LABELS full)
# The same in Megatron Core's place, beside its own schedules; skipped without it.
stringline_torch_python_test(torch_megatron megatron_test.py)
set_tests_properties(torch_megatron PROPERTIES LABELS full)
