// A stand-in for cuBLASLt, for tests on machines without a GPU: the functions of libcublasLt.so.13
// that the engine calls, column-major and in double on the CPU.
//
// A product runs when its stream comes to it, as kernels do on the stand-in for the runtime. Calls
// refused by the library are refused with the same status, and further rules are checked: operands
// lie wholly in memory of the device, outputs overlap no inputs, and an algorithm is used for the
// problem for which it was found. An algorithm with a workspace overwrites it.
//
// These functions control the stand-in. They are not thread-safe beside other calls.
#pragma once

#include <cstdint>

extern "C" {

// Resets to the state of a new process.
void standin_cublas_reset();
// The n-th call from now on (the first is 1) fails with a cublasStatus_t; 0: none.
void standin_cublas_fail_call(int64_t n, int status);
// The number of calls since the last reset or standin_cublas_fail_call, and the name of the failed
// call, or null.
int64_t standin_cublas_calls();
const char* standin_cublas_failed_call();

// The numbers of searches for an algorithm, and of products.
int64_t standin_cublas_searches();
int64_t standin_cublas_products();
// The number of multiprocessors for which the last product was cut; 0: all.
int32_t standin_cublas_sms();
// The number of open handles.
int64_t standin_cublas_handles();
// Searches succeed, and find `count` algorithms (0 or 1), with this cublasStatus_t as their state.
void standin_cublas_find(int count, int state);
// From now on, until the reset, searches for D (m,n) of sums of k terms find no algorithm. A number
// of 0 stands for any.
void standin_cublas_refuse(int64_t m, int64_t n, int64_t k);

}  // extern "C"
