stringline_test(search_test
  SOURCES schedlang/elaborated.cc schedlang/random_plan.cc schedlang/search/block_test.cc
    schedlang/search/bounds_test.cc schedlang/search/drawn_times_test.cc schedlang/search/evaluator_test.cc schedlang/search/exact_test.cc
    schedlang/search/kept_orders_test.cc schedlang/search/lower_bound_test.cc
    schedlang/search/partition_test.cc schedlang/search/stop_test.cc schedlang/search/unequal_test.cc schedlang/threads_test.cc schedlang/write/phases_test.cc schedlang/search/problem_test.cc
    schedlang/search/rules_test.cc schedlang/search/tiny_problems.cc schedlang/write/write_schedule_test.cc
  LIBRARIES stringline_language)
