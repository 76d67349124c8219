# Ranks as processes: who they are, and what they tell each other over TCP. No GPU is needed.
stringline_test(processes_test
  SOURCES nccl/frames_test.cc nccl/identity_test.cc nccl/processes.cc nccl/tcp_world_test.cc
  LIBRARIES stringline_processes)
