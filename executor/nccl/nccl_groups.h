// Groups of ranks that are processes, one GPU each, on NCCL.
//
// Every group of several ranks is a communicator of its own (NCCL takes some tens of megabytes of
// GPU memory for each), so that its calls wait for nobody else's. Connect makes them all: every
// process tells which groups it is in, and those without a common member are split off together.
// Then each sends a byte to whom it will send to, once, since the first message between two makes a
// connection, for which a process's host would have to wait in the middle of a step.
//
// A call is given to NCCL when the device issues it, by the thread that issues, in the order in
// which calls were enqueued. All but NcclSums::kNccl are sends and receives in one NCCL group each:
//
//   all-to-all, all-gather, broadcast   every piece from whom it is of to whom it is for
//   sums, ordered                       an all-to-all, a kernel that adds up in the order of the
//                                       members, an all-gather: as many bytes as a ring moves; a
//                                       workspace at a time
//   counted rows, padded                packed by a kernel into pieces that are all as large as any
//                                       can be, exchanged, and unpacked; counts are compared
//   counted rows, counted               the host waits for the counts when it issues the call
//
// Calls of different groups wait for each other nowhere, as a plan is checked and simulated. For
// that the kernels of all of them must fit on the GPU side by side, each of which holds its SMs
// until its peer has come: so a call takes at most its communicator's share of three quarters of
// them (max_ctas, if that is less). NCCL_LAUNCH_ORDER_IMPLICIT=1 would have them start one after
// the other instead, in the order of the plan's lists; a plan in which a receive is listed before a
// send of another channel, and needs it, then never ends, as many a V-shaped one.
//
// Bits are those of copies/group, except for NcclSums::kNccl.
//
// Calls are captured where NcclSettings::capture says so; those of a graph meet those of others'
// graphs, or issued ones, alike. NCCL ends no communicator before the graphs with its calls are
// destroyed, so those go first, also before communicators are aborted.
//
// Failure: while the host waits, for the GPU or for NCCL, it looks at NCCL's errors and at the
// other processes; whoever finds something tells the others, and every communicator is aborted. The
// status says which call this rank was waiting in.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "executor/copies/group.h"
#include "executor/cuda/device.h"
#include "executor/group.h"
#include "executor/nccl/nccl_comms.h"

namespace stringline {

class NcclGroups;

class NcclGroup final : public Group {
 public:
  NcclGroup(NcclGroups* owner, absl::Span<const int> ranks, absl::Span<const MemberPair> talks);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int members() const override { return static_cast<int>(ranks_.size()); }
  // Of this process's member.
  void Enqueue(int member, StreamId stream, const Call* call) override;

 private:
  friend class NcclGroups;
  // A call that was given to NCCL in this step, or when it was captured; `after` happens when it is
  // over.
  struct Issued {
    cudaEvent_t after = nullptr;
    const Call* call = nullptr;
  };

  static absl::Status Perform(void* self, IssueMeeting::Ends ends, IssueMeeting::Streams streams);
  static absl::Status EndStep(const void* self);
  // Why the call cannot be captured.
  absl::Status Capturable(const Call& call) const;
  absl::Status Give(const Call& call, StreamId stream);
  absl::Status Message(const Call& call, StreamId stream);
  absl::Status AllToAll(const Call& call, StreamId stream);
  absl::Status AllGather(const Call& call, StreamId stream);
  absl::Status GatherPieces(const Call& call, StreamId stream);
  absl::Status Broadcast(const Call& call, StreamId stream);
  absl::Status AllReduce(const Call& call, StreamId stream);
  absl::Status ReduceScatter(const Call& call, StreamId stream);
  absl::Status ReducePieces(const Call& call, StreamId stream);
  absl::Status Sum(const void* own, int64_t slice, void* to, int64_t count, StreamId stream);
  absl::Status PaddedRowsOf(const Call& call, StreamId stream);
  absl::Status CountedRows(const Call& call, StreamId stream);
  absl::Status NoteIssued(const Call& call, StreamId stream);

  // body(m) for every other member, all in one NCCL group.
  template <typename Body>
  absl::Status WithOthers(Body body);
  absl::Status Send(int member, const void* from, int64_t bytes, StreamId stream);
  absl::Status Recv(int member, void* to, int64_t bytes, StreamId stream);
  absl::Status Done(nccl::Result result, const char* call);

  // Memory beside the arenas, when a call that needs it is enqueued.
  void Prepare(const Call& call);
  absl::Status Reserve(int64_t bytes);
  int64_t SliceBytes(const Call& call) const;
  int64_t MostSlice(const Call& call) const;
  // Its user before has done with it.
  absl::Status TakeWorkspace(StreamId stream);

  // "ranks 0 and 1".
  std::string Name() const;
  // What this rank waits for, or "".
  std::string Awaited() const;

  NcclGroups* const owner_;
  CudaDevice* const device_;
  const std::vector<int> ranks_;
  const std::vector<MemberPair> talks_;  // empty: all to all
  int own_ = -1;                         // this process's member; -1: it is none
  nccl::Comm* comm_ = nullptr;
  IssueMeeting turn_;

  char* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  StreamId workspace_on_;  // its last user
  RowsReport* report_ = nullptr;
  int32_t* host_counts_ = nullptr;
  int64_t host_counts_size_ = 0;
  absl::Status unprepared_;

  std::vector<Issued> issued_;
  size_t issued_count_ = 0;
  size_t captured_count_ = 0;          // of them, in what is replayed
  std::vector<const Call*> enqueued_;  // until CheckCalls
  bool checked_ = false;
};

class NcclGroups final : public Groups {
 public:
  // All processes call it. Each has one rank, its own number, on its device; all outlive this.
  // Errors are those of NcclComms::Make.
  static absl::StatusOr<std::unique_ptr<NcclGroups>> Make(CudaDevice* device, World* world,
                                                          const nccl::Library& library,
                                                          const NcclSettings& settings);
  ~NcclGroups() override;

  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override;
  bool BeginsTogether() const override { return false; }
  absl::Status Connect() override;
  absl::Status CheckCalls() override;
  // How many communicators there are, and by how much the GPU had less free memory when they were
  // made and connected than before. Memory that NCCL takes later is not in it: for the first call
  // of a sum of its own (NcclSums::kNccl).
  std::string Describe() const override;

 private:
  absl::Status CompareCalls();
  friend class NcclGroup;
  NcclGroups(CudaDevice* device, World* world, std::unique_ptr<NcclComms> comms)
      : device_(device), world_(world), comms_(std::move(comms)) {}

  static absl::Status Checked(cudaError_t error, const char* call);
  static absl::Status Watch(const void* self);
  static absl::Status EndStep(const void* self);
  static void GiveUp(void* self, const absl::Status& failure);
  absl::Status Start();
  absl::Status ConnectNew();
  // Whether the host may go on waiting, which it has for so long.
  absl::Status GoOnWaiting(int64_t waited_ns);
  absl::Status WaitFor(cudaEvent_t event);
  // The groups of all processes that are not connected, each once, in the same order everywhere.
  absl::StatusOr<std::vector<std::vector<int>>> Agree(absl::Span<NcclGroup* const> own);
  // How many SMs a call may take, so that those of all communicators fit beside each other. The
  // same in all processes.
  absl::StatusOr<int> ShareOfSms(absl::Span<const std::vector<int>> groups);
  absl::Status WarmUp(NcclGroup* group);
  std::string Awaited() const;

  CudaDevice* const device_;
  World* const world_;
  std::unique_ptr<NcclComms> comms_;
  std::deque<NcclGroup> groups_;
  size_t connected_ = 0;             // groups before it are
  std::vector<int> groups_of_rank_;  // by rank, of those
  cudaStream_t own_ = nullptr;
  char* bytes_ = nullptr;  // for connecting: one from and one to every process
  int64_t looked_ns_ = 0;
  int64_t waiting_since_ns_ = 0;  // for the GPU; 0: not since the last step ended
  cudaEvent_t counted_ = nullptr;
  int64_t taken_bytes_ = 0;    // by communicators
  absl::Status calls_differ_;  // what CheckCalls found
};

}  // namespace stringline
