// A stand-in for NCCL, for tests on machines without a GPU: the functions of libnccl.so.2 that the
// engine calls, between processes forked after the library was loaded, through shared memory.
//
// Its rules are NCCL's, and no kinder ones. An operation on a stream starts when the stream comes
// to it and when all earlier operations on the same communicator are over. A send meets the next
// receive of its pair, and is over when the bytes have arrived: nothing is buffered. Calls in a
// group are one operation, in which only those with the same peer and direction are ordered; none
// of them runs before the group ends. The first message between two members makes a connection, for
// which both must have called. With NCCL_LAUNCH_ORDER_IMPLICIT=1 a process's operations start in
// the order of their calls, whatever their streams and communicators.
//
// Calls on a stream under capture are repeated by every launch of the graph, in the order of the
// capture. Communicators must be neither ended nor aborted before such graphs are destroyed: NCCL
// would wait for that.
//
// Faults that hang in NCCL hang here: different sizes, types or collectives, a peer that never
// comes. The first fault is recorded. Communicators must be made with blocking = 0: calls may
// return ncclInProgress, and the operation is put on the stream when ncclCommGetAsyncError reports
// its end; another call before that is refused.
#pragma once

#include <cstdint>

extern "C" {

// Resets to the unused state, in this process and those forked from now on. Only while no other
// process uses the library.
void standin_nccl_reset();
// The n-th call of this process from now on (the first is 1) fails with that ncclResult_t.
void standin_nccl_fail_call(int64_t n, int result);
int64_t standin_nccl_calls();
const char* standin_nccl_failed_call();
// ncclCommGetAsyncError returns `result`, from now on, in this process; 0: none.
void standin_nccl_async_error(int result);
// The first fault over all processes, or "".
const char* standin_nccl_fault();
// The sum of the maximal CTAs of this process's live split communicators.
int64_t standin_nccl_ctas();
// Every communicator that this process makes from now on takes this GPU memory.
void standin_nccl_comm_bytes(int64_t bytes);
// The numbers of this process's live communicators, and of those aborted.
int64_t standin_nccl_alive();
int64_t standin_nccl_aborted();
// The number of connections with an end in this process: one for every communicator, peer and
// direction in which messages went.
int64_t standin_nccl_connections();

}  // extern "C"
