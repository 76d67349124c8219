# Ranks as processes: their identities, and their exchanges over TCP. No GPU is needed.
stringline_test(processes_test
  FULL StrangersLong.*
  SOURCES nccl/frames_test.cc nccl/identity_test.cc nccl/process_group_test.cc nccl/proof_test.cc nccl/strangers.cc nccl/strangers_test.cc nccl/tcp_world_test.cc nccl/tree_world_test.cc nccl/unasked_test.cc nccl/wires_test.cc nccl/world_processes.cc executor/group_contract.cc executor/random_calls.cc
  LIBRARIES stringline_processes stringline_check_rows)

# The same with groups on NCCL, beside stand-ins for NCCL and for CUDA's runtime.
if(STRINGLINE_HAS_CUDA)
  stringline_test(nccl_test
    SOURCES nccl/nccl_capture_test.cc nccl/nccl_group_test.cc nccl/nccl_header_test.cc nccl/nccl_processes.cc nccl/nccl_section_test.cc nccl/nccl_training_test.cc executor/group_contract.cc
    LIBRARIES stringline_gpu_sections stringline_nccl stringline_cuda_backend stringline_played_kernels stringline_copies stringline_language stringline_cuda_standin stringline_cublas_standin stringline_nccl_standin)
  target_link_options(nccl_test PRIVATE -Wl,--disable-new-dtags,--no-as-needed)
  set_target_properties(nccl_test PROPERTIES CUDA_RUNTIME_LIBRARY None)
else()
  add_custom_target(nccl_test)  # nothing, so that one may ask for it anywhere
endif()
