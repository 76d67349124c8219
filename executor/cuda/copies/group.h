// Groups of ranks that share a process, on one GPU or on several.
//
// A message is a copy on the receiver's stream, after the sender's earlier work; the sender's
// stream goes on after the copy. In a collective the streams of all members wait for each other,
// each then moves its share of the bytes, and they wait again. Counted rows are planned and checked
// by the GPU, which tells their counts where they are not known, and written straight to their
// places: the host never learns their number, so a step with them can be captured.
//
// Messages, gathers and broadcasts are copies, between any two GPUs.
// Counted rows and sums are kernels that use the memory of all members: FailedPrecondition if a GPU
// cannot access another's memory.
//
// For study the wire can be slowed down: a transfer holds its streams for its simulated duration,
// from the moment when all ends have come.
//
// Calls that differ are reported to the device when they are issued, before the GPU has run any of
// them; counts that disagree or do not fit, when it synchronizes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "executor/cuda/copies/kernels.h"
#include "executor/cuda/device.h"
#include "executor/engine/group.h"
#include "executor/engine/link.h"

namespace stringline {

// OK, or the error in the counts of the reported call (a Call).
absl::Status StatusOf(const RowsReport& report);

class CopyGroup final : public Group {
 public:
  CopyGroup(CudaDevice* device, int members, const LinkSpeed& link = {});
  CopyGroup(const CopyGroup&) = delete;
  CopyGroup& operator=(const CopyGroup&) = delete;

  int members() const override { return members_; }
  void Enqueue(int member, StreamId stream, const Call* call) override;

 private:
  using Ends = IssueMeeting::Ends;
  using Streams = IssueMeeting::Streams;
  static absl::Status Message(void* self, Ends ends, Streams streams);
  static absl::Status Collective(void* self, Ends ends, Streams streams);
  static std::string DescribeMessage(const void* self, int side, const void* end);
  static std::string DescribeCollective(const void* self, int side, const void* end);
  static absl::Status CheckRows(const void* self);

  // FailedPrecondition if the members' GPUs cannot access the memory that the call needs.
  absl::Status CheckReach(const Call& call, Streams streams) const;
  // Holds the stream, and so its dependants, while `bytes` travel; for counted rows, the planned
  // rows.
  absl::Status Hold(StreamId stream, const Call& call, int64_t bytes);
  // Allocates memory for the plans of counted calls at a place; called once.
  absl::Status PrepareRows(int place);
  // Gather: the first stream waits for all others. Release: the others wait for the first.
  absl::Status Gather(Streams streams);
  absl::Status Release(Streams streams);
  absl::Status PlanRows(Ends ends, StreamId stream);
  absl::Status Share(Ends ends, int member, StreamId stream);
  absl::Status Copy(StreamId stream, void* to, const void* from, int64_t bytes);
  absl::Status SendRows(Ends ends, int member, StreamId stream);
  absl::Status Reduce(Ends ends, int member, StreamId stream);
  absl::Status Scatter(Ends ends, int member, StreamId stream);

  CudaDevice* const device_;
  const int members_;
  const LinkSpeed link_;
  std::vector<IssueMeeting> messages_;  // by sender and receiver
  IssueMeeting collective_;
  PieceOfRows* pieces_ = nullptr;  // for the counted call under way, in the GPU's memory
  int32_t* faulty_ = nullptr;      // behind the pieces
  RowsReport* report_ = nullptr;
  StreamId planned_on_;  // the stream of the last counted call
  absl::Status unprepared_;
};

class CopyGroups final : public Groups {
 public:
  explicit CopyGroups(CudaDevice* device, const LinkSpeed& link = {})
      : device_(device), link_(link) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> /*talks*/) override {
    return &groups_.emplace_back(device_, static_cast<int>(ranks.size()), link_);
  }

 private:
  CudaDevice* const device_;
  const LinkSpeed link_;
  std::deque<CopyGroup> groups_;
};

}  // namespace stringline
