# The CUDA backend beside a stand-in for CUDA's runtime; no GPU is needed.
if(STRINGLINE_HAS_CUDA)
  add_subdirectory(cuda/standin)
  add_subdirectory(cuda/ptx)
  # The launches as plain C++: kernels are functions that play their threads.
  set(launches attention elementwise heads linear norms tokens update)
  list(TRANSFORM launches PREPEND ${CMAKE_SOURCE_DIR}/executor/cuda/kernels/)
  list(TRANSFORM launches APPEND .cu)
  add_library(stringline_played_kernels STATIC ${launches})
  set_source_files_properties(${launches} PROPERTIES LANGUAGE CXX)
  set_target_properties(stringline_played_kernels PROPERTIES UNITY_BUILD OFF)
  target_include_directories(stringline_played_kernels SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(stringline_played_kernels PUBLIC stringline_executor)
  # Trainings of a minute each are long tests, and so is every schedule captured: some models are
  # captured in any case (CudaTraining).
  stringline_test(cuda_test
    FULL "GpuSections.TrainingPasses:GpuSections.OverlapIsMeasuredOverASlowWire:CudaTrainer.StateThatIsSharedOutIsThatOfWholeCopies:Library/CapturedRun.*"
    SOURCES cuda/copy_group_test.cc executor/group_contract.cc cuda/cuda_allocation_test.cc cuda/cuda_bf16_test.cc cuda/cuda_capture_test.cc cuda/cuda_deadline_test.cc cuda/cuda_device_test.cc cuda/cuda_kernels_test.cc cuda/cuda_parts_test.cc cuda/cuda_run_test.cc cuda/cuda_step_test.cc cuda/cuda_training_test.cc cuda/gpu_check_test.cc cuda/gpu_sections_test.cc cuda/joined_nodes_test.cc cuda/kernel_resources_test.cc cuda/nvtx_test.cc cuda/several_gpus_test.cc cuda/slow_wire_test.cc cuda/sm_groups_test.cc cuda/standin_clock_test.cc cuda/standin_devices_test.cc cuda/standin_test.cc
            cuda/cublas_descriptors_test.cc cuda/cublas_standin_test.cc cuda/known_models.cc cuda/own_products_test.cc cuda/product_shape_test.cc cuda/products_test.cc stages/random_values.cc
    LIBRARIES stringline_gpu_sections stringline_cuda_backend stringline_played_kernels stringline_copies stringline_language stringline_cuda_standin stringline_cublas_standin stringline_cudnn_standin)
  # The stand-ins and no other libraries, whatever LD_LIBRARY_PATH says, also for libraries opened
  # at run time; libraries after them need them too.
  target_link_options(cuda_test PRIVATE -Wl,--disable-new-dtags,--no-as-needed)
  set_target_properties(cuda_test PROPERTIES CUDA_RUNTIME_LIBRARY None)
  # The same cases with what nvcc compiled, played by an interpreter of PTX. Its operator new is no
  # sanitizer's.
  if(NOT STRINGLINE_SANITIZE)
    stringline_test(compiled_test TOGETHER
      SOURCES cuda/ptx/heap.cc cuda/ptx/played_environment.cc cuda/ptx/copies_played_test.cc cuda/ptx/ptx_test.cc cuda/ptx/wide_rows_test.cc cuda/ptx/wide_stores_test.cc
      cuda/copy_group_test.cc executor/group_contract.cc cuda/cuda_bf16_test.cc cuda/cuda_kernels_test.cc cuda/cuda_training_test.cc stages/random_values.cc
      stages/bodies_attention_test.cc stages/bodies_experts_test.cc stages/bodies_linear_test.cc stages/bodies_test.cc stages/bodies_tokens_test.cc stages/bodies_update_test.cc stages/run_kernel.cc
      LIBRARIES stringline_ptx stringline_nccl_kernels stringline_copy_kernels stringline_gpu_sections stringline_cuda_backend stringline_cuda_kernels stringline_copies stringline_language stringline_cuda_standin stringline_cublas_standin stringline_cudnn_standin)
    target_compile_definitions(compiled_test PRIVATE STRINGLINE_PLAYED_BODIES="tests/cuda/ptx/played_body.h")
    target_link_options(compiled_test PRIVATE -Wl,--disable-new-dtags,--no-as-needed -Wl,--wrap=aligned_alloc,--wrap=free)
    set_target_properties(compiled_test PROPERTIES CUDA_RUNTIME_LIBRARY None)
    # All in one process, which sees at the end whether every kernel was played, and every barrier
    # missed. Of the trainings a few; all, and every case, in the long one.
    add_test(NAME compiled_kernels COMMAND compiled_test --gtest_brief=1
      "--gtest_filter=-Tiny/CudaTraining*:CudaTrainer*")
    set_tests_properties(compiled_kernels PROPERTIES TIMEOUT 900
      ENVIRONMENT "CUDA_VISIBLE_DEVICES=;STRINGLINE_PLAY_ALL=1;STRINGLINE_TAKE_OUT_BARRIERS=1")
    add_test(NAME compiled_training COMMAND compiled_test --gtest_brief=1
      "--gtest_filter=Tiny/CudaTraining.GivesTheNumbers*/s_1f1b_gpt:Tiny/CudaTraining.GivesTheNumbers*/s_1f1b_moe:Tiny/CudaTraining.*Captured/s_dualpipe_v_llama_bf16")
    set_tests_properties(compiled_training PROPERTIES TIMEOUT 600 ENVIRONMENT CUDA_VISIBLE_DEVICES=)
    add_test(NAME compiled_all COMMAND compiled_test --gtest_brief=1)
    set_tests_properties(compiled_all PROPERTIES TIMEOUT 1800 LABELS full ENVIRONMENT CUDA_VISIBLE_DEVICES=)
    add_dependencies(cuda_test compiled_test)  # whoever builds one builds both
  endif()
  # The resources of the kernels are read from nvcc's output. Triton brings the tool for this, too.
  file(GLOB triton_tools "${data_home}/stringline/torch/lib/python3*/site-packages/triton/backends/nvidia/bin")
  find_program(STRINGLINE_CUOBJDUMP cuobjdump HINTS "${CUDAToolkit_BIN_DIR}" ${triton_tools})
  mark_as_advanced(STRINGLINE_CUOBJDUMP)
  set(cuobjdump "${STRINGLINE_CUOBJDUMP}")
  if(NOT cuobjdump)
    set(cuobjdump "")
  endif()
  set(libraries)
  foreach(library stringline_cuda_kernels stringline_copy_kernels stringline_nccl_kernels)
    add_dependencies(cuda_test ${library})
    string(APPEND libraries ":$<TARGET_FILE:${library}>")
  endforeach()
  set_source_files_properties(cuda/kernel_resources_test.cc PROPERTIES COMPILE_DEFINITIONS
    "STRINGLINE_CUOBJDUMP=\"${cuobjdump}\";STRINGLINE_KERNEL_LIBRARIES=\"${libraries}\"")

  # The real cuBLASLt takes descriptors without a GPU.
  find_library(STRINGLINE_CUBLASLT_LIBRARY libcublasLt.so.13
    HINTS ${CUDAToolkit_LIBRARY_DIR} "${data_home}/stringline/cuda/toolkit/lib")
  mark_as_advanced(STRINGLINE_CUBLASLT_LIBRARY)
  set(cublaslt "${STRINGLINE_CUBLASLT_LIBRARY}")
  if(NOT cublaslt)
    set(cublaslt "")
  endif()
  set_source_files_properties(cuda/cublas_descriptors_test.cc PROPERTIES
    COMPILE_DEFINITIONS "STRINGLINE_CUBLASLT_LIBRARY=\"${cublaslt}\"" SKIP_UNITY_BUILD_INCLUSION ON)

  # With cuDNN itself, and in a process of its own. cuDNN chooses plans for a GPU that is not here.
  if(STRINGLINE_HAS_CUDNN)
    find_library(STRINGLINE_CUDNN_LIBRARY libcudnn.so.9
      HINTS ${CUDAToolkit_LIBRARY_DIR} "${data_home}/stringline/cuda/cudnn/lib")
    find_library(STRINGLINE_NVRTC_LIBRARY libnvrtc.so.13
      HINTS ${CUDAToolkit_LIBRARY_DIR} "${data_home}/stringline/cuda/toolkit/lib")
    mark_as_advanced(STRINGLINE_CUDNN_LIBRARY STRINGLINE_NVRTC_LIBRARY)
    stringline_test(attention_plans_test
      SOURCES cuda/attention_plans_test.cc cuda/known_models.cc
      LIBRARIES stringline_cuda_backend stringline_played_kernels stringline_cuda_standin stringline_cublas_standin stringline_driver_standin)
    foreach(library CUDNN NVRTC)
      set(path "${STRINGLINE_${library}_LIBRARY}")
      if(NOT path)
        set(path "")
      endif()
      target_compile_definitions(attention_plans_test PRIVATE STRINGLINE_${library}_LIBRARY="${path}")
    endforeach()
    target_compile_definitions(attention_plans_test PRIVATE
      STRINGLINE_NOTING_CUDNN="$<TARGET_FILE:stringline_noting_cudnn>")
    add_dependencies(attention_plans_test stringline_noting_cudnn)
    target_link_options(attention_plans_test PRIVATE -Wl,--disable-new-dtags,--no-as-needed)
    set_target_properties(attention_plans_test PROPERTIES CUDA_RUNTIME_LIBRARY None)
    add_dependencies(cuda_test attention_plans_test)  # whoever builds one builds both
  endif()
else()
  add_custom_target(cuda_test)  # nothing, so that one may ask for it anywhere
endif()
