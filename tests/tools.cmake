stringline_test(tools_test
  SOURCES tools/cli_test.cc tools/codes_test.cc tools/documents_test.cc tools/explain_test.cc tools/fmt_test.cc
    tools/golden_test.cc
    tools/picture_test.cc tools/run_test.cc tools/scripts_test.cc tools/style_test.cc tools/sweep_test.cc tools/tool_run.cc
  LIBRARIES stringline_tool nlohmann_json::nlohmann_json)
