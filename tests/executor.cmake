# tests of executor
stringline_test(executor_test
  SOURCES executor/device_test.cc executor/gradients_test.cc executor/strict_test.cc
  LIBRARIES stringline_executor)
