stringline_test(search_test
  SOURCES schedlang/elaborated.cc schedlang/search/problem_test.cc
  LIBRARIES stringline_language)
