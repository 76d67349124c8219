stringline_test(search_test
  SOURCES schedlang/elaborated.cc schedlang/search/evaluator_test.cc schedlang/search/problem_test.cc
  LIBRARIES stringline_language)
