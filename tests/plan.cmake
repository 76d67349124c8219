stringline_test(plan_test
  SOURCES schedlang/bytes_test.cc schedlang/calibrate_test.cc schedlang/check_test.cc schedlang/costs_test.cc schedlang/engines.cc
    schedlang/engines_test.cc schedlang/exhaustive.cc schedlang/live_memory_test.cc schedlang/lower_test.cc schedlang/memory_curve_test.cc schedlang/network_time_test.cc schedlang/parts_test.cc schedlang/plan_test.cc
    schedlang/published_test.cc schedlang/schedule_table_test.cc schedlang/simulate_test.cc schedlang/timeline_test.cc
    schedlang/comm_stream_test.cc schedlang/elaborated.cc schedlang/torch_csv_test.cc
    schedlang/data_parallel_test.cc schedlang/formula_test.cc schedlang/part_formula_test.cc schedlang/greedy_costs_test.cc schedlang/random_plan.cc schedlang/simulator_truth_test.cc schedlang/slow_links_test.cc schedlang/slow_model.cc
    schedlang/step_length_test.cc schedlang/variations_test.cc
    schedlang/diagnosis_test.cc schedlang/read_dump_test.cc schedlang/trace_import_test.cc schedlang/truth_families_test.cc schedlang/truth_test.cc schedlang/written_trace.cc schedlang/yaml_test.cc schedlang/further_actions_test.cc schedlang/forward_only_test.cc schedlang/slices_test.cc schedlang/steps_test.cc schedlang/unequal_microbatches_test.cc schedlang/own_actions_test.cc schedlang/edges_test.cc schedlang/ready_order_test.cc schedlang/ready_plans.cc schedlang/kernels_test.cc
  LIBRARIES stringline_diagnose stringline_kernels stringline_language stringline_torch ZLIB::ZLIB)
