# tests of stages
stringline_test(stages_test
  SOURCES
    stages/bf16_test.cc
    stages/decoder_test.cc
    stages/dropout_test.cc
    stages/experts_kernels_test.cc
    stages/gpt_test.cc
    stages/gradients_test.cc
    stages/init_test.cc
    stages/kernel_nan_test.cc
    stages/kernel_truth_attention_test.cc
    stages/kernel_truth_llama_test.cc
    stages/kernel_truth_test.cc
    stages/kernels_test.cc
    stages/layers_test.cc
    stages/model_runs.cc
    stages/moe_cut_test.cc
    stages/moe_test.cc
    stages/plain_moe.cc
    stages/ops_test.cc
    stages/program_text_test.cc
    stages/raised_test.cc
    stages/encoder_decoder_test.cc
    stages/routes_test.cc
    stages/random_values.cc
    stages/run_kernel.cc
    stages/slices_test.cc
    stages/split_test.cc
    stages/text_test.cc
  LIBRARIES stringline_stages stringline_cpu_kernels)

# The bodies of the GPU's kernels, played by the host.
stringline_test(bodies_test
  SOURCES
    stages/bodies_attention_test.cc
    stages/bodies_experts_test.cc
    stages/bodies_linear_test.cc
    stages/bodies_test.cc
    stages/bodies_tokens_test.cc
    stages/bodies_update_test.cc
    stages/gpu_block_test.cc
    stages/host_block_test.cc
    stages/random_values.cc
    stages/run_kernel.cc
  LIBRARIES stringline_executor)
set_source_files_properties(stages/gpu_block_test.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Our Bf16 is compared with the toolkit's, if the toolkit is there.
find_path(CUDA_BF16_INCLUDE_DIR cuda_bf16.h HINTS /usr/local/cuda/include)
if(CUDA_BF16_INCLUDE_DIR)
  target_include_directories(bodies_test SYSTEM PRIVATE ${CUDA_BF16_INCLUDE_DIR})
endif()
