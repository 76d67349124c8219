// A stand-in for cuBLASLt, for tests on machines without a GPU: the functions of libcublasLt.so.13
// that the engine calls, column-major and in double on the CPU.
//
// A product runs when its stream comes to it, as kernels do on the stand-in for the runtime. What
// the library refuses is refused with the same status, and more is checked than it does: operands
// lie wholly in memory of the device, what is written overlaps nothing that is read, and an
// algorithm is used for the problem that it was found for. An algorithm that wants a workspace
// overwrites it.
//
// These functions steer it. They are not thread-safe beside other calls.
#pragma once

#include <cstdint>

extern "C" {

// As if the process began anew.
void standin_cublas_reset();
// The n-th call from now on (the first is 1) fails with a cublasStatus_t; 0: none.
void standin_cublas_fail_call(int64_t n, int status);
// Calls since the last reset or standin_cublas_fail_call, and the name of the one that failed, or
// null.
int64_t standin_cublas_calls();
const char* standin_cublas_failed_call();

// How many searches for an algorithm there were, and how many products.
int64_t standin_cublas_searches();
int64_t standin_cublas_products();
// For how many multiprocessors the last product was cut; 0: all.
int32_t standin_cublas_sms();
// Handles that are alive.
int64_t standin_cublas_handles();
// Searches succeed, and find so many algorithms (0 or 1), with that cublasStatus_t as their state.
void standin_cublas_find(int count, int state);

}  // extern "C"
