stringline_test(tools_test
  SOURCES tools/check_memory_test.cc tools/choose_backend_test.cc tools/cli_test.cc tools/codes_test.cc tools/documents_test.cc tools/editor_client.cc tools/editor_grammar_test.cc tools/explain_test.cc tools/fmt_test.cc tools/found_test.cc tools/lint_agrees_test.cc
    tools/golden_test.cc tools/lsp_completion_test.cc tools/lsp_names_test.cc tools/lsp_test.cc tools/mutants_test.cc tools/page_test.cc
    tools/copies_test.cc tools/palette_test.cc tools/picture_test.cc tools/prepared_run.cc tools/progress_test.cc tools/rehearse_test.cc tools/run_checkpoint_test.cc tools/run_end_test.cc tools/run_sections_test.cc tools/run_processes_test.cc tools/run_test.cc tools/scripts_test.cc tools/search_test.cc tools/session_test.cc tools/shown_part_test.cc tools/standard_output_test.cc tools/suite_compare_test.cc tools/suite_file_test.cc tools/suite_results.cc tools/suite_results_test.cc tools/suite_run_test.cc tools/style_test.cc tools/sweep_test.cc tools/tool_process.cc tools/tool_run.cc tools/trace_test.cc tools/use_test.cc tools/vscode_test.cc tools/write_file_test.cc
  LIBRARIES stringline_tool stringline_check_rows nlohmann_json::nlohmann_json)
# Some tests run the tool itself.
add_dependencies(tools_test stringline)
target_compile_definitions(tools_test PRIVATE STRINGLINE_TOOL="$<TARGET_FILE:stringline>")
