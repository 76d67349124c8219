// Groups of ranks that are processes, one GPU each, on NCCL.
//
// Every group of several ranks is a communicator of its own (NCCL takes some tens of megabytes of
// GPU memory for each), so that its calls wait for no other group's. Connect makes all groups:
// every process announces its groups, and disjoint groups are split off together. Then each member
// sends a byte to each of its receivers, once, since the first message between two members makes a
// connection, for which the host would otherwise wait in the middle of a step.
//
// A call is given to NCCL when the device issues it, by the issuing thread, in the order of
// enqueueing. All but NcclSums::kNccl are sends and receives in one NCCL group each:
//
//   all-gather, broadcast    every piece from its owner to its receivers
//   sums, ordered            an all-to-all, a kernel that adds up in the order of the members, an
//                            all-gather: as many bytes as a ring moves; a workspace at a time
//   counted rows, padded     packed by a kernel into pieces of the largest size, exchanged, and
//                            unpacked; counts are compared, or travel in the pieces
//   counted rows, counted    the host waits for the counts when it issues the call; if they are not
//                            known, a call of their own brings them
//
// Calls of different groups never wait for each other, as the checker and the simulator assume. For
// this the kernels of all groups must fit on the GPU side by side, since each holds its SMs until
// its peer has come: so a call takes at most its communicator's share of three quarters of the SMs.
// Nor does it take more than it needs beside computation: 2 SMs for messages, 8 for sums and
// all-to-alls, unless min_ctas or max_ctas say otherwise. It is a power of two, since NCCL takes
// the next higher one for messages. NCCL_LAUNCH_ORDER_IMPLICIT=1 would instead start kernels one
// after the other, in the order of the plan's lists; a plan that lists a receive before a send of
// another channel on which it depends would then deadlock, as many V-shaped plans would.
//
// Bits are those of cuda/copies/group, except for NcclSums::kNccl.
//
// Calls are captured if NcclSettings::capture is set. Calls of a graph match those of others'
// graphs and issued calls alike. NCCL ends no communicator before the graphs with its calls are
// destroyed, so graphs are destroyed first, also before communicators are aborted.
//
// Failure: while the host waits, for the GPU or for NCCL, it polls NCCL's errors and the other
// processes; the first to see a failure reports it, and every communicator is aborted. The status
// names the call in which this rank was waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "executor/cuda/device.h"
#include "executor/engine/group.h"
#include "executor/nccl/nccl_comms.h"
#include "executor/nccl/nccl_member.h"
#include "executor/nccl/nccl_row_transfers.h"
#include "executor/nccl/nccl_summation.h"

namespace stringline {

class NcclGroups;

class NcclGroup final : public Group {
 public:
  NcclGroup(NcclGroups* owner, absl::Span<const int> ranks, absl::Span<const MemberPair> talks);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int members() const override { return static_cast<int>(ranks_.size()); }
  // The calls of this process's member.
  void Enqueue(int member, StreamId stream, const Call* call) override;

 private:
  friend class NcclGroups;
  // A call given to NCCL in this step, or when the step was captured; `after` is recorded at its
  // end.
  struct Issued {
    cudaEvent_t after = nullptr;
    const Call* call = nullptr;
  };

  static absl::Status Perform(void* self, IssueMeeting::Ends ends, IssueMeeting::Streams streams);
  static absl::Status EndStep(const void* self);
  // OK, or the reason why the call cannot be captured.
  absl::Status Capturable(const Call& call) const;
  absl::Status Give(const Call& call, StreamId stream);
  absl::Status Message(const Call& call, StreamId stream);
  absl::Status AllGather(const Call& call, StreamId stream);
  absl::Status GatherPieces(const Call& call, StreamId stream);
  absl::Status Broadcast(const Call& call, StreamId stream);
  absl::Status NoteIssued(const Call& call, StreamId stream);
  // Waits until all work issued to the stream has ended.
  absl::Status WaitForStream(StreamId stream);
  // Allocates memory beside the arenas, when a call that needs it is enqueued.
  absl::Status Prepare(const Call& call);

  // "ranks 0 and 1".
  std::string Name() const;
  // The call that this rank waits for, or "".
  std::string Awaited() const;

  NcclGroups* const owner_;
  CudaDevice* const device_;
  const std::vector<int> ranks_;
  const std::vector<MemberPair> talks_;  // empty: all to all
  NcclMember member_;
  NcclSummation sums_;
  NcclRowTransfers rows_;
  IssueMeeting turn_;
  absl::Status unprepared_;

  std::vector<Issued> issued_;
  size_t issued_count_ = 0;
  size_t captured_count_ = 0;          // among the issued calls, those in the captured step
  std::vector<const Call*> enqueued_;  // until CheckCalls
  bool checked_ = false;
};

class NcclGroups final : public Groups {
 public:
  // Called by all processes. Each has one rank, its own number, on its device; all outlive this
  // object. Errors are those of NcclComms::Make.
  static absl::StatusOr<std::unique_ptr<NcclGroups>> Make(CudaDevice* device, World* world,
                                                          const nccl::Library& library,
                                                          const NcclSettings& settings);
  ~NcclGroups() override;

  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override;
  bool BeginsTogether() const override { return false; }
  absl::Status Connect() override;
  absl::Status CheckCalls() override;
  // The number of communicators, and the decrease in the GPU's free memory from before they were
  // made until they were connected. Excludes memory that NCCL takes later, for the first of its own
  // sums (NcclSums::kNccl).
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
  // OK while the host may go on waiting after `waited_ns`.
  absl::Status GoOnWaiting(int64_t waited_ns);
  absl::Status WaitFor(cudaEvent_t event);
  // The groups of all processes not yet connected, each once, in the same order everywhere.
  absl::StatusOr<std::vector<std::vector<int>>> AgreeOnNew(absl::Span<NcclGroup* const> own);
  // The number of SMs of a call such that the calls of all communicators fit side by side. The same
  // in all processes.
  absl::StatusOr<int> ShareOfSms(absl::Span<const std::vector<int>> groups);
  // The bound on a call's CTAs, of which `share` are its communicator's.
  int CtasOf(const NcclGroup& group, int share) const;
  absl::Status WarmUp(NcclGroup* group);
  std::string Awaited() const;

  CudaDevice* const device_;
  World* const world_;
  std::unique_ptr<NcclComms> comms_;
  std::deque<NcclGroup> groups_;
  size_t connected_ = 0;             // the number of groups connected
  std::vector<int> groups_of_rank_;  // by rank: connected groups
  cudaStream_t own_ = nullptr;
  char* bytes_ = nullptr;  // for connecting: a byte from and a byte to every process
  int64_t looked_ns_ = 0;
  int64_t waiting_since_ns_ = 0;  // for the GPU; 0: not waiting since the last step ended
  cudaEvent_t counted_ = nullptr;
  int64_t taken_bytes_ = 0;    // by communicators
  absl::Status calls_differ_;  // the result of CheckCalls
};

}  // namespace stringline
