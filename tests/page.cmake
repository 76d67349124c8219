# The HTML page in a real browser, without a window; skipped where Chromium or Selenium is missing.
add_executable(page_writer page/page_writer.cc)
target_link_libraries(page_writer PRIVATE stringline_tool)
target_compile_definitions(page_writer PRIVATE STRINGLINE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

# The system's own Python, since Debian's package of Selenium belongs to this Python.
find_program(BROWSER_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(BROWSER_PYTHON)
  # Screenshots stay in page/ of the build folder.
  add_test(NAME page_browser
    COMMAND ${BROWSER_PYTHON} ${CMAKE_SOURCE_DIR}/tests/page/browser_test.py
      $<TARGET_FILE:page_writer> ${CMAKE_BINARY_DIR}/page)
  set_tests_properties(page_browser PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 400 RUN_SERIAL ON)
endif()
