# tests of executor
stringline_test(executor_test
  SOURCES executor/allocation_test.cc executor/available_memory_test.cc executor/bf16_run_test.cc executor/device_test.cc executor/engines_agree_test.cc executor/flight_log_test.cc executor/gradients_test.cc
          executor/memory_agrees_test.cc executor/memory_plan_test.cc executor/params_test.cc executor/placement_test.cc executor/rehearsal_test.cc schedlang/elaborated.cc executor/strict_test.cc executor/tensor_header_test.cc executor/when_ready_test.cc executor/packing_test.cc
          executor/checkpoint_test.cc executor/checkpoint_shards_test.cc executor/copy_check_test.cc executor/family_config_test.cc executor/model_folder_test.cc executor/token_file_test.cc executor/sample_file_test.cc executor/several_steps_test.cc executor/train_test.cc executor/trainer_test.cc schedlang/engines.cc schedlang/random_plan.cc
          executor/experts_run_test.cc executor/group_contract.cc executor/group_test.cc executor/measured_costs_test.cc executor/parts_rehearsal_test.cc executor/plain_training.cc executor/plain_training_test.cc
          executor/kept_run.cc executor/processes_test.cc executor/model_keys_test.cc executor/run_config_test.cc executor/sharding_test.cc executor/state_pieces_test.cc executor/shared_machine.cc executor/host_copies_test.cc executor/evaluation_test.cc executor/slices_training_test.cc executor/packed_training_test.cc executor/ready_training_test.cc executor/edges_training_test.cc executor/dropout_training_test.cc schedlang/ready_plans.cc executor/exact_sum_test.cc
  LIBRARIES stringline_executor stringline_language)
target_include_directories(executor_test PRIVATE ${CMAKE_SOURCE_DIR})

# Models of torch.export, made up node by node.
stringline_test(torch_model_test
  SOURCES executor/torch_arguments_test.cc executor/torch_dropout_test.cc executor/torch_model_test.cc executor/torch_writes_test.cc
    executor/torch_archive.cc
  LIBRARIES stringline_executor libzip::zip nlohmann_json::nlohmann_json)
target_include_directories(torch_model_test PRIVATE ${CMAKE_SOURCE_DIR})
