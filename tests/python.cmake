# The Python package: built as a wheel, installed into an empty environment, tested beside the tool.
# Without its environment (tools/install --python) it is skipped.
add_test(NAME python_package
  COMMAND ${CMAKE_SOURCE_DIR}/tools/wheel --test $<TARGET_FILE:stringline>)
set_tests_properties(python_package PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 RUN_SERIAL ON)

# Torch's own schedule objects, with the wheel that the test before has made.
add_test(NAME torch_python_package
  COMMAND ${CMAKE_SOURCE_DIR}/tools/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/python_test.py
    ${CMAKE_SOURCE_DIR}/build/wheel/site)
set_tests_properties(torch_python_package PROPERTIES
  LABELS full SKIP_RETURN_CODE 77 TIMEOUT 300 DEPENDS python_package)
