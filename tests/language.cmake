stringline_test(language_test
  SOURCES schedlang/ast_text.cc schedlang/bad_input_test.cc schedlang/counters_test.cc
    schedlang/elaborate_test.cc schedlang/elaborated.cc schedlang/eval_test.cc schedlang/findings_test.cc
    schedlang/language_md_test.cc schedlang/layout_string_test.cc schedlang/library_pipes_test.cc schedlang/library_test.cc
    schedlang/parse_test.cc schedlang/place_within_test.cc schedlang/random_plan.cc schedlang/split_and_pipes_test.cc schedlang/syntax_hints_test.cc schedlang/uses_test.cc
    schedlang/megatron_arguments_test.cc
  LIBRARIES stringline_language stringline_megatron)
