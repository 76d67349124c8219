stringline_test(tune_test
  SOURCES schedlang/tune_test.cc tools/tool_run.cc tools/tune_test.cc
  LIBRARIES stringline_tool nlohmann_json::nlohmann_json)

if(TARGET stringline)
  add_test(NAME validate_costs
    COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/tools/validate_costs_test.py $<TARGET_FILE:stringline>)
endif()
