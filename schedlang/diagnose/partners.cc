#include "schedlang/diagnose/partners.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace stringline {
namespace {

uint64_t KeyOf(int32_t group, int64_t number) {
  return static_cast<uint64_t>(group) * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(number);
}

struct PairKey {
  int32_t group;
  int from, to;
  friend bool operator==(const PairKey&, const PairKey&) = default;
};
struct HashOfPair {
  size_t operator()(const PairKey& key) const {
    const auto ends = static_cast<uint64_t>(static_cast<uint32_t>(key.from)) << 32 |
                      static_cast<uint32_t>(key.to);
    return std::hash<uint64_t>()(KeyOf(key.group, static_cast<int64_t>(ends)));
  }
};

struct MeetingKey {
  int32_t group;
  int64_t sequence;
  friend bool operator==(const MeetingKey&, const MeetingKey&) = default;
};
struct HashOfMeeting {
  size_t operator()(const MeetingKey& key) const {
    return std::hash<uint64_t>()(KeyOf(key.group, key.sequence));
  }
};

class PartnerFinder {
 public:
  PartnerFinder(const Records& records, const std::vector<Standing>& standings)
      : records_(records), standings_(standings) {}

  Partners Find() {
    for (size_t r = 0; r < standings_.size(); ++r) {
      for (const RecordedLaunch& launch : standings_[r].launches) {
        if (!launch.is_message) TakeCollective(static_cast<int32_t>(r), launch);
      }
      for (size_t i = 0; i < records_.ranks[r].calls.size(); ++i) {
        TakeMessage({static_cast<int32_t>(r), static_cast<int32_t>(i)});
      }
    }
    for (Pair& pair : found_.pairs) CountFromOpen(&pair);
    std::sort(found_.meetings.begin(), found_.meetings.end(),
              [](const Meeting& a, const Meeting& b) {
                return std::tie(a.group, a.sequence) < std::tie(b.group, b.sequence);
              });
    std::sort(found_.pairs.begin(), found_.pairs.end(), [](const Pair& a, const Pair& b) {
      return std::tie(a.group, a.from, a.to) < std::tie(b.group, b.from, b.to);
    });
    return std::move(found_);
  }

 private:
  void TakeCollective(int32_t rank, const RecordedLaunch& launch) {
    const auto [at, is_new] =
        meeting_of_.try_emplace(MeetingKey{launch.group, launch.sequence}, found_.meetings.size());
    if (is_new) found_.meetings.push_back({launch.group, launch.sequence, {}});
    found_.meetings[at->second].calls.push_back({rank, launch.first_call});
  }

  void TakeMessage(CallAt at) {
    const RecordedCall& call = records_.ranks[static_cast<size_t>(at.rank)].calls[at.call];
    const CallShape& shape = records_.shapes[static_cast<size_t>(call.shape)];
    if (!shape.IsMessage() || shape.from < 0) return;  // nobody knows who sends to a '?'
    const auto [found, is_new] =
        pair_of_.try_emplace(PairKey{call.group, shape.from, shape.to}, found_.pairs.size());
    if (is_new) found_.pairs.push_back({.group = call.group, .from = shape.from, .to = shape.to});
    Pair& pair = found_.pairs[found->second];
    (shape.IsSend() ? pair.sends : pair.receives).push_back(at);
  }

  // The number of messages at the beginning that have ended.
  size_t EndedOf(const std::vector<CallAt>& calls) const {
    size_t open = calls.size();
    for (size_t i = calls.size(); i-- > 0;) {
      const Standing& standing = standings_[static_cast<size_t>(calls[i].rank)];
      const int32_t launch = standing.launch_of[static_cast<size_t>(calls[i].call)];
      if (!standing.launches[static_cast<size_t>(launch)].ended) open = i;
    }
    return open;
  }

  // A rank without calls in a pair may have dropped them, too.
  bool MayHaveDropped(const Pair& pair, const std::vector<CallAt>& calls, int end) const {
    if (!calls.empty()) return records_.ranks[static_cast<size_t>(calls[0].rank)].dropped;
    const std::vector<int>& members = records_.groups[static_cast<size_t>(pair.group)].members;
    if (end >= static_cast<int>(members.size())) return false;
    const int32_t rank = records_.IndexOf(members[end]);
    return rank >= 0 && records_.ranks[rank].dropped;
  }

  void CountFromOpen(Pair* pair) const {
    if (!MayHaveDropped(*pair, pair->sends, pair->from) &&
        !MayHaveDropped(*pair, pair->receives, pair->to)) {
      return;
    }
    pair->is_counted_from_open = true;
    pair->send_base = EndedOf(pair->sends);
    pair->receive_base = EndedOf(pair->receives);
  }

  const Records& records_;
  const std::vector<Standing>& standings_;
  Partners found_;
  std::unordered_map<MeetingKey, size_t, HashOfMeeting> meeting_of_;
  std::unordered_map<PairKey, size_t, HashOfPair> pair_of_;
};

}  // namespace

Partners PartnersOf(const Records& records, const std::vector<Standing>& standings) {
  return PartnerFinder(records, standings).Find();
}

}  // namespace stringline
