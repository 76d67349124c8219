# Training runs of several processes in which something goes wrong at every place.
stringline_test(faults_test
  SOURCES faults/drift_test.cc faults/faults_test.cc faults/faulty_backend.cc nccl/strangers.cc
  LIBRARIES stringline_tool stringline_check_rows)
