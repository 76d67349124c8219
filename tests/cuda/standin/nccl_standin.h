// A stand-in for NCCL, for tests on machines without a GPU: the functions of libnccl.so.2 that the
// engine calls, between processes that were forked after the library was loaded, through memory
// that they share.
//
// Its rules are NCCL's, and no kinder ones. What is called on a stream starts when the stream comes
// to it and when all that was called before on the same communicator is over. A send meets the next
// receive of its pair, and is over when the bytes are there: nothing is buffered. Calls in a group
// are one call, in which only those with the same peer and direction follow each other; nothing of
// it runs before the group ends. The first message between two members makes a connection, for
// which both must have called. With NCCL_LAUNCH_ORDER_IMPLICIT=1 a process's calls start in the
// order in which they were made, whatever their streams and communicators.
//
// What is called on a stream under capture is called again by every launch of the graph, in the
// order of the capture. Communicators must not be ended, nor aborted, before such graphs are
// destroyed: NCCL would wait for that.
//
// What would hang in NCCL hangs here: other sizes or types, other collectives, a peer that never
// comes. The first such fault is noted. Communicators must be made with blocking = 0: calls may
// return ncclInProgress, and what was called is put on the stream when ncclCommGetAsyncError says
// that it is over; another call before that is refused.
#pragma once

#include <cstdint>

extern "C" {

// As if no process had ever used it. Only while no other process does. In this process, or in those
// forked from now on.
void standin_nccl_reset();
// The n-th call of this process from now on (the first is 1) fails with that ncclResult_t.
void standin_nccl_fail_call(int64_t n, int result);
int64_t standin_nccl_calls();
const char* standin_nccl_failed_call();
// ncclCommGetAsyncError returns it, from now on, in this process; 0: nothing.
void standin_nccl_async_error(int result);
// Why something hangs, of all processes, or "".
const char* standin_nccl_fault();
// The sum of the most CTAs of this process's communicators that were split off and are alive.
int64_t standin_nccl_ctas();
// So much GPU memory every communicator takes that this process makes from now on.
void standin_nccl_comm_bytes(int64_t bytes);
// Communicators of this process that are alive, and those that were aborted.
int64_t standin_nccl_alive();
int64_t standin_nccl_aborted();
// In how many connections this process is an end: one for every communicator, peer and direction in
// which messages went.
int64_t standin_nccl_connections();

}  // extern "C"
