// OpenMP for programs in which every thread computes alone, as the executor's ranks do
// (PrepareThread): the functions that oneDNN calls of GCC's runtime, with teams of one thread. A
// Python wheel holds this library under the name of GCC's, libgomp.so.1, which oneDNN asks for.

extern "C" {

void omp_set_num_threads(int) {}
int omp_get_max_threads() { return 1; }
int omp_get_num_threads() { return 1; }
int omp_get_thread_num() { return 0; }
int omp_in_parallel() { return 0; }

// The caller runs the region itself between start and end; there is nobody to wait for.
void GOMP_parallel_start(void (*)(void*), void*, unsigned) {}
void GOMP_parallel_end() {}
void GOMP_barrier() {}

// A static loop has one piece: all of it. False: no iteration is left.
bool GOMP_loop_static_start(long start, long end, long step, long, long* first, long* last) {
  *first = start;
  *last = end;
  return step > 0 ? start < end : start > end;
}
bool GOMP_loop_static_next(long*, long*) { return false; }
void GOMP_loop_end_nowait() {}

}  // extern "C"
