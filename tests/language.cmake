stringline_test(language_test
  SOURCES schedlang/ast_text.cc schedlang/elaborated.cc schedlang/findings_test.cc schedlang/library_test.cc
    schedlang/parse_test.cc
  LIBRARIES stringline_language)
