# The installed library, as a program outside the checkout finds it.
add_test(NAME installed_library
  COMMAND ${CMAKE_SOURCE_DIR}/tests/packaging/installed_library.sh ${CMAKE_BINARY_DIR}
    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/installed)
set_tests_properties(installed_library PROPERTIES TIMEOUT 600)
