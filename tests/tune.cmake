stringline_test(tune_test
  SOURCES schedlang/tune_test.cc tools/tool_run.cc tools/tune_test.cc
  LIBRARIES stringline_tool nlohmann_json::nlohmann_json)
