// Groups of ranks that share a process, on one GPU or on several.
//
// A message is a copy on the receiver's stream, after what the sender's stream did before; the
// sender's stream goes on after it. In a collective the streams of all members wait for each other,
// each then moves its share of the bytes, and they wait again. Rows that travel by counts are
// planned and checked by the GPU, and written straight to where they belong: the host is never
// asked how many they are, so a step with them can be captured.
//
// Messages, all-to-alls of equal pieces, gathers and broadcasts are copies, which go between any
// two GPUs. Counted rows and sums are kernels that use the memory of all members:
// FailedPrecondition where a GPU has no access to that of another.
//
// For study the wire can be made slow: whatever travels holds its streams for as long as it would
// take, from when all ends are there.
//
// Of calls that differ the device learns when they are issued, before the GPU has done anything
// with them; of counts that do not agree or do not fit when it synchronizes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "executor/copies/kernels.h"
#include "executor/cuda/device.h"
#include "executor/group.h"
#include "executor/link.h"

namespace stringline {

// OK, or what is wrong with the counts of the call that it is about, a Call.
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

  // Whether its members' GPUs reach what the call needs.
  absl::Status CheckReach(const Call& call, Streams streams) const;
  // The streams that wait for that one go on when so many bytes have travelled; of counted rows
  // those that are planned.
  absl::Status Hold(StreamId stream, const Call& call, int64_t bytes);
  // Memory for the plans of counted calls, there; once.
  absl::Status PrepareRows(int place);
  // The first stream goes on when all have come; the others when it has.
  absl::Status Gather(Streams streams);
  absl::Status Release(Streams streams);
  absl::Status PlanRows(Ends ends, StreamId stream);
  absl::Status Share(Ends ends, int member, StreamId stream);
  absl::Status Copy(StreamId stream, void* to, const void* from, int64_t bytes);
  absl::Status Exchange(Ends ends, int member, StreamId stream);
  absl::Status SendRows(Ends ends, int member, StreamId stream);
  absl::Status Reduce(Ends ends, int member, StreamId stream);
  absl::Status Scatter(Ends ends, int member, StreamId stream);

  CudaDevice* const device_;
  const int members_;
  const LinkSpeed link_;
  std::vector<IssueMeeting> messages_;  // by sender and receiver
  IssueMeeting collective_;
  PieceOfRows* pieces_ = nullptr;  // the GPU's, of the counted call under way
  int32_t* faulty_ = nullptr;      // behind them
  RowsReport* report_ = nullptr;
  StreamId planned_on_;  // the last counted call
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
