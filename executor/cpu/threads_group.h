// Groups of ranks that share this process, on a device whose streams can meet.
//
// The second to come copies a message. A collective is two meetings with the work between them:
// when all members are there each performs its share, and when all are done they go on.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "executor/cpu/device.h"
#include "executor/engine/group.h"

namespace stringline {

// The time in flight of calls that have met, in which their bytes are copied too; a null function:
// no time.
struct CallTimes {
  int64_t (*duration_ns)(const void* self, absl::Span<const Call* const> met) = nullptr;
  const void* self = nullptr;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(CpuDevice* device, int members, const CallTimes& times);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  int members() const override { return members_; }
  void Enqueue(int member, StreamId stream, const Call* call) override;

 private:
  // A member's share of the collective under way.
  struct Share {
    const ThreadGroup* group = nullptr;
    int member = 0;
  };
  static absl::Status Message(const void* self, MeetingPlace::Ends ends);
  static absl::Status Arrive(const void* self, MeetingPlace::Ends ends);
  static int64_t OnTheWay(const void* self, MeetingPlace::Ends ends);
  static int64_t LeftOnTheWay(const void* self, MeetingPlace::Ends ends);
  static void WriteEnds(const void* self, MeetingPlace::Ends ends);
  static void NoteComing(const void* self, const void* end);
  static std::string DescribeMessage(const void* self, int side, const void* end);
  static std::string DescribeCollective(const void* self, int side, const void* end);
  static void Perform(const void* self, int64_t argument, NativeStream stream);
  const Call& call_of(int member) const {
    return *static_cast<const Call*>(arrival_.ends[static_cast<size_t>(member)]);
  }
  static void TellCounts(MeetingPlace::Ends ends);
  absl::Status CheckCounts(MeetingPlace::Ends ends) const;
  void Exchange(int member) const;
  void Reduce(int member) const;
  void Scatter(int member) const;

  CpuDevice* const device_;
  const int members_;
  const CallTimes times_;
  std::vector<MeetingPlace> messages_;  // by sender and receiver
  MeetingPlace arrival_;
  MeetingPlace departure_;
  int64_t due_ns_ = 0;         // the end of the collective under way, if calls take time
  std::vector<Share> shares_;  // by member
};

class ThreadGroups final : public Groups {
 public:
  explicit ThreadGroups(CpuDevice* device, CallTimes times = {}) : device_(device), times_(times) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> /*talks*/) override {
    return &groups_.emplace_back(device_, static_cast<int>(ranks.size()), times_);
  }

 private:
  CpuDevice* const device_;
  const CallTimes times_;
  std::deque<ThreadGroup> groups_;
};

}  // namespace stringline
