# Our training runs, repeated by torch; skipped where torch is missing.
add_executable(training_writer torch/training_writer.cc executor/kept_run.cc)
target_link_libraries(training_writer PRIVATE stringline_tool nlohmann_json::nlohmann_json)
target_compile_definitions(training_writer PRIVATE STRINGLINE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

add_test(NAME torch_training
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/training_test.py
    $<TARGET_FILE:training_writer>)
set_tests_properties(torch_training PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 400)

# Models of transformers, loaded and saved by us; skipped without transformers.
add_executable(folder_writer torch/folder_writer.cc)
target_link_libraries(folder_writer PRIVATE stringline_tool nlohmann_json::nlohmann_json)
add_test(NAME torch_folder
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/folder_test.py
    $<TARGET_FILE:folder_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
set_tests_properties(torch_folder PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 400)

# Models of transformers, exported by torch.export and trained by us; skipped without transformers.
add_executable(export_writer torch/export_writer.cc)
target_link_libraries(export_writer PRIVATE stringline_tool nlohmann_json::nlohmann_json)
target_compile_definitions(export_writer PRIVATE STRINGLINE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_test(NAME torch_export
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/export_test.py
    $<TARGET_FILE:export_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
set_tests_properties(torch_export PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 600)

# Small programs with a peculiarity each: our gradients are torch's, or the program is refused. A
# quarter of them, and all.
set(gradients_command ${CMAKE_SOURCE_DIR}/tools/environments/torch/run
  ${CMAKE_SOURCE_DIR}/tests/torch/gradients_test.py
  $<TARGET_FILE:export_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
add_test(NAME torch_gradients COMMAND ${gradients_command} --some)
set_tests_properties(torch_gradients PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 900)
add_test(NAME torch_gradients_all COMMAND ${gradients_command})
set_tests_properties(torch_gradients_all PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 1800)

# Models of images, sounds and classes: some, and all of them.
set(images_command ${CMAKE_SOURCE_DIR}/tools/environments/torch/run
  ${CMAKE_SOURCE_DIR}/tests/torch/images_test.py
  $<TARGET_FILE:export_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
add_test(NAME torch_images COMMAND ${images_command} ResNet "ResNet in training" ViT)
set_tests_properties(torch_images PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME torch_images_all COMMAND ${images_command})
set_tests_properties(torch_images_all PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 1800)

# The layers of small multilayer perceptrons, however they are written.
add_test(NAME torch_layers
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/layers_test.py
    $<TARGET_FILE:stringline>)
set_tests_properties(torch_layers PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 400)

# Models with dropout in training, whose masks the test makes itself.
set(dropout_command ${CMAKE_SOURCE_DIR}/tools/environments/torch/run
  ${CMAKE_SOURCE_DIR}/tests/torch/dropout_test.py
  $<TARGET_FILE:export_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
add_test(NAME torch_dropout COMMAND ${dropout_command} "a written layer" TransformerEncoderLayer)
set_tests_properties(torch_dropout PROPERTIES LABELS ci SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME torch_dropout_all COMMAND ${dropout_command})
set_tests_properties(torch_dropout_all PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 1800)

# 178 models of torch and transformers: six minutes.
add_test(NAME torch_zoo
  COMMAND ${CMAKE_SOURCE_DIR}/tools/environments/torch/run ${CMAKE_SOURCE_DIR}/tests/torch/zoo_test.py
    $<TARGET_FILE:export_writer> $<TARGET_FILE:stringline> ${CMAKE_SOURCE_DIR})
set_tests_properties(torch_zoo PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600)
