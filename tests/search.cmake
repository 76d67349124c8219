stringline_test(search_test
  SOURCES schedlang/elaborated.cc schedlang/search/block_test.cc schedlang/search/evaluator_test.cc
    schedlang/search/kept_orders_test.cc schedlang/search/lower_bound_test.cc
    schedlang/search/problem_test.cc schedlang/search/tiny_problems.cc
  LIBRARIES stringline_language)
