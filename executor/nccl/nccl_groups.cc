// All processes exchange their lists of groups; disjoint groups are split off in one round. The
// calls of a first step are compared by hashes, and in full if these differ. During waits for the
// GPU, NCCL and the other processes are polled.
#include "executor/nccl/nccl_groups.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/cuda/cuda_error.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/frames.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int kMessageCtas = 2, kSumCtas = 8;
constexpr int64_t kLookEveryNs =
    2 * kNsPerMs;  // between polls of NCCL and the other processes, while the GPU works

std::optional<std::vector<int>> ReadRanks(const std::string& text, int ranks) {
  std::vector<int> read;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int rank = 0;
    if (!absl::SimpleAtoi(part, &rank) || rank < 0 || rank >= ranks) return std::nullopt;
    read.push_back(rank);
  }
  return read;
}

// The decrease of the GPU's free memory, including other programs' use.
int64_t TakenSince(int64_t free_bytes, CudaDevice* device) {
  return std::max<int64_t>(0, free_bytes - device->available().bytes);
}

}  // namespace

absl::Status NcclGroups::Checked(cudaError_t error, const char* call) {
  return cuda::CallStatus(error, call);
}

absl::StatusOr<std::unique_ptr<NcclGroups>> NcclGroups::Make(CudaDevice* device, World* world,
                                                             const nccl::Library& library,
                                                             const NcclSettings& settings) {
  SL_CHECK(world->ranks() == world->processes()) << "a process has one rank";
  const int64_t free_bytes = device->available().bytes;
  SL_ASSIGN_OR_RETURN(auto comms, NcclComms::Make(library, world, settings));
  std::unique_ptr<NcclGroups> groups(new NcclGroups(device, world, std::move(comms)));
  groups->taken_bytes_ = TakenSince(free_bytes, device);
  const absl::Status status = groups->Start();
  if (!status.ok()) {
    groups->comms_->Abort(status);
    return status;
  }
  return groups;
}

absl::Status NcclGroups::Start() {
  SL_RETURN_IF_ERROR(
      Checked(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "cudaStreamCreate"));
  SL_RETURN_IF_ERROR(
      Checked(cudaEventCreateWithFlags(&counted_, cudaEventDisableTiming), "cudaEventCreate"));
  SL_ASSIGN_OR_RETURN(void* const bytes, device_->Allocate(2 * int64_t{world_->processes()}));
  bytes_ = static_cast<char*>(bytes);
  device_->AddWatch(Watch, this);
  device_->OnFailure(GiveUp, this);
  device_->AddCheck(EndStep, this);
  return absl::OkStatus();
}

NcclGroups::~NcclGroups() {
  device_->ForgetCaptured();
  device_->OnFailure(nullptr, nullptr);
  if (own_ != nullptr) (void)cudaStreamDestroy(own_);
  if (counted_ != nullptr) (void)cudaEventDestroy(counted_);
}

Group* NcclGroups::New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) {
  return &groups_.emplace_back(this, ranks, talks);
}

absl::Status NcclGroups::Connect() {
  if (comms_->aborted()) return absl::FailedPreconditionError("the communicators were aborted");
  const int64_t free_bytes = device_->available().bytes;
  const absl::Status status = ConnectNew();
  taken_bytes_ += TakenSince(free_bytes, device_);
  if (!status.ok()) comms_->Abort(status);
  return status;
}

std::string NcclGroups::Describe() const {
  return absl::StrFormat("%d communicators of NCCL, which took %.1f MB of this GPU's memory",
                         comms_->count(), static_cast<double>(taken_bytes_) / 1e6);
}

absl::Status NcclGroups::ConnectNew() {
  std::vector<NcclGroup*> own;
  for (; connected_ < groups_.size(); ++connected_) {
    NcclGroup& group = groups_[connected_];
    if (group.member_.own() >= 0 && group.members() > 1) own.push_back(&group);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::vector<int>> all, AgreeOnNew(own));
  SL_ASSIGN_OR_RETURN(const int share, ShareOfSms(all));
  // Each group goes into the first round in which all its members are free.
  std::vector<std::vector<int>> rounds;  // the groups of each round
  std::vector<std::vector<bool>> busy;
  for (size_t g = 0; g < all.size(); ++g) {
    const auto is_free = [&](const std::vector<bool>& of) {
      return std::none_of(all[g].begin(), all[g].end(), [&](int rank) { return of[rank]; });
    };
    const auto round = std::find_if(busy.begin(), busy.end(), is_free) - busy.begin();
    if (round == static_cast<ptrdiff_t>(busy.size())) {
      rounds.emplace_back();
      busy.emplace_back(world_->ranks(), false);
    }
    rounds[round].push_back(static_cast<int>(g));
    for (const int rank : all[g]) busy[round][rank] = true;
  }
  // Groups with the same ranks are matched in the order of creation.
  std::vector<NcclGroup*> mine(all.size(), nullptr);
  for (NcclGroup* const group : own) {
    size_t g = 0;
    while (all[g] != group->ranks_ || mine[g] != nullptr) ++g;
    mine[g] = group;
  }
  for (const std::vector<int>& round : rounds) {
    int color = nccl::kNoColor, key = 0;
    for (size_t i = 0; i < round.size(); ++i) {
      if (mine[round[i]] == nullptr) continue;
      color = static_cast<int>(i);
      key = mine[round[i]]->member_.own();
    }
    const std::string name =
        color < 0 ? "" : absl::StrCat("ranks ", absl::StrJoin(all[round[color]], ","));
    const int ctas = color < 0 ? share : CtasOf(*mine[round[color]], share);
    SL_ASSIGN_OR_RETURN(nccl::Comm* const comm, comms_->Split(color, key, name, ctas));
    if (color >= 0) mine[round[color]]->member_.set_comm(comm);
  }
  for (NcclGroup* const group : mine) {
    if (group != nullptr) SL_RETURN_IF_ERROR(WarmUp(group));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int>>> NcclGroups::AgreeOnNew(
    absl::Span<NcclGroup* const> own) {
  std::vector<std::string> texts;
  for (const NcclGroup* const group : own) texts.push_back(absl::StrJoin(group->ranks_, ","));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> given, world_->Exchange(Pack(texts)));
  std::vector<std::vector<int>> all;
  std::vector<std::map<std::vector<int>, int>> counts(given.size());
  for (size_t p = 0; p < given.size(); ++p) {
    const auto listed = Unpack(given[p]);
    if (!listed.has_value()) return absl::InternalError("a list of groups cannot be read");
    for (const std::string& text : *listed) {
      const auto ranks = ReadRanks(text, world_->ranks());
      if (!ranks.has_value()) return absl::InternalError("a list of groups cannot be read");
      ++counts[p][*ranks];
      // The process of the group's lowest rank determines its place in the order.
      if (*std::min_element(ranks->begin(), ranks->end()) == static_cast<int>(p)) {
        all.push_back(*ranks);
      }
    }
  }
  for (const auto& made : counts) {
    for (const auto& [ranks, count] : made) {
      for (const int rank : ranks) {
        const int theirs = counts[rank].count(ranks) == 0 ? 0 : counts[rank].at(ranks);
        if (theirs == count) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("of the group of ranks ", absl::StrJoin(ranks, ", "), " one member makes ",
                         count, " and rank ", rank, " makes ", theirs));
      }
    }
  }
  return all;
}

absl::StatusOr<int> NcclGroups::ShareOfSms(absl::Span<const std::vector<int>> groups) {
  int own = 0;
  SL_RETURN_IF_ERROR(
      Checked(cudaDeviceGetAttribute(&own, cudaDevAttrMultiProcessorCount, device_->ordinal()),
              "cudaDeviceGetAttribute"));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> given, world_->Exchange(absl::StrCat(own)));
  int least = own;
  for (const std::string& text : given) {
    int sms = 0;
    if (!absl::SimpleAtoi(text, &sms)) return absl::InternalError("a number of SMs cannot be read");
    least = std::min(least, sms);
  }
  groups_of_rank_.resize(world_->ranks(), 0);
  for (const std::vector<int>& ranks : groups) {
    for (const int rank : ranks) ++groups_of_rank_[rank];
  }
  const int most = *std::max_element(groups_of_rank_.begin(), groups_of_rank_.end());
  return std::max(1, least * 3 / 4 / std::max(1, most));
}

int NcclGroups::CtasOf(const NcclGroup& group, int share) const {
  const NcclSettings& settings = comms_->settings();
  const int usual = group.talks_.empty() ? kSumCtas : kMessageCtas;
  const int most = settings.max_ctas > 0 ? settings.max_ctas : std::max(usual, settings.min_ctas);
  int ctas = 1;
  while (2 * ctas <= std::min(share, most)) ctas *= 2;
  return ctas;
}

// A byte from every member to each of its receivers, in one call. All processes go through their
// groups in the same order, so no cycle of waits arises.
absl::Status NcclGroups::WarmUp(NcclGroup* group) {
  const nccl::Library& library = comms_->library();
  const auto talk = [&](int from, int to) {
    return group->talks_.empty() ||
           std::any_of(group->talks_.begin(), group->talks_.end(),
                       [&](MemberPair pair) { return pair.from == from && pair.to == to; });
  };
  SL_RETURN_IF_ERROR(group->member_.Done(library.GroupStart(), "ncclGroupStart"));
  absl::Status status;
  for (int m = 0; m < group->members() && status.ok(); ++m) {
    if (m == group->member_.own()) continue;
    if (talk(group->member_.own(), m)) {
      status = group->member_.Done(
          library.Send(bytes_ + m, 1, nccl::kInt8, m, group->member_.comm(), own_), "ncclSend");
    }
    if (!status.ok() || !talk(m, group->member_.own())) continue;
    status = group->member_.Done(library.Recv(bytes_ + world_->processes() + m, 1, nccl::kInt8, m,
                                              group->member_.comm(), own_),
                                 "ncclRecv");
  }
  const absl::Status ended = group->member_.Done(library.GroupEnd(), "ncclGroupEnd");
  SL_RETURN_IF_ERROR(status);
  SL_RETURN_IF_ERROR(ended);
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(counted_, own_), "cudaEventRecord"));
  return WaitFor(counted_);
}

absl::Status NcclGroups::WaitFor(cudaEvent_t event) {
  const int64_t began_ns = NowNs();
  while (true) {
    const cudaError_t error = cuda::Query(event);
    if (error != cudaErrorNotReady) return Checked(error, "cudaEventQuery");
    SL_RETURN_IF_ERROR(GoOnWaiting(NowNs() - began_ns));
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
}

absl::Status NcclGroups::GoOnWaiting(int64_t waited_ns) {
  const NcclSettings& settings = comms_->settings();
  absl::Status status;
  if (settings.wait_ms > 0 && waited_ns > settings.wait_ms * kNsPerMs) {
    status = AsLost(absl::DeadlineExceededError(
        absl::StrCat("rank ", world_->process(), " waited ",
                     static_cast<double>(settings.wait_ms) / 1000, " s for its GPU")));
  } else if (NowNs() - looked_ns_ > kLookEveryNs) {
    looked_ns_ = NowNs();
    status = comms_->Poll();
  }
  if (status.ok()) return status;
  const std::string awaited = Awaited();
  if (awaited.empty()) return status;
  return WithMessage(
      status, absl::StrCat(status.message(), "; rank ", world_->process(), " was in ", awaited));
}

// A watch of the device, which passes no time: the time of waiting is measured here.
absl::Status NcclGroups::Watch(const void* self) {
  auto& groups = *const_cast<NcclGroups*>(static_cast<const NcclGroups*>(self));
  if (groups.waiting_since_ns_ == 0) groups.waiting_since_ns_ = NowNs();
  return groups.GoOnWaiting(NowNs() - groups.waiting_since_ns_);
}

absl::Status NcclGroups::EndStep(const void* self) {
  const_cast<NcclGroups*>(static_cast<const NcclGroups*>(self))->waiting_since_ns_ = 0;
  return absl::OkStatus();
}

void NcclGroups::GiveUp(void* self, const absl::Status& failure) {
  auto& groups = *static_cast<NcclGroups*>(self);
  groups.device_->ForgetCaptured();
  groups.comms_->Abort(failure);
}

std::string NcclGroups::Awaited() const {
  std::string all;
  for (const NcclGroup& group : groups_) {
    const std::string one = group.Awaited();
    if (!one.empty()) absl::StrAppend(&all, all.empty() ? "" : " and in ", one);
  }
  return all;
}

namespace {

// A lane of a group: the messages from one member to another, or the collectives.
using Lane = std::pair<int, int>;
constexpr Lane kCollectives = {-1, -1};

// By lane, a member's calls: each as the text that must be equal, and as a text for people.
using Calls = std::map<Lane, std::vector<std::pair<std::string, std::string>>>;

Calls CallsOf(absl::Span<const Call* const> enqueued, int own) {
  Calls calls;
  for (const Call* const call : enqueued) {
    const bool send = call->kind == CallKind::kSend, recv = call->kind == CallKind::kRecv;
    const Lane lane = send ? Lane(own, call->peer) : recv ? Lane(call->peer, own) : kCollectives;
    const int kind = send || recv ? -1 : static_cast<int>(call->kind);
    const int root = call->kind == CallKind::kBroadcast ? call->peer : -1;
    calls[lane].emplace_back(absl::StrCat(kind, ",", root, ",", call->bytes, ",", call->name.index,
                                          ",", ShapeOfRows(*call)),
                             DescribeWithAction(*call));
  }
  return calls;
}

uint64_t HashOf(uint64_t hash, absl::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash ^ 0xFF) * 1099511628211U;
}

// "0,1#2:from,to:count:hash", a line for every lane.
std::vector<std::string> Digest(const std::string& group, const Calls& calls) {
  std::vector<std::string> lines;
  for (const auto& [lane, of] : calls) {
    uint64_t hash = 14695981039346656037U;
    for (const auto& [alike, text] : of) hash = HashOf(hash, alike);
    lines.push_back(absl::StrCat(group, ":", lane.first, ",", lane.second));
    lines.push_back(absl::StrCat(of.size(), ":", hash));
  }
  return lines;
}

// A lane in full: both texts of every call.
std::vector<std::string> Whole(const std::string& group, const Calls& calls) {
  std::vector<std::string> lines;
  for (const auto& [lane, of] : calls) {
    lines.push_back(absl::StrCat(group, ":", lane.first, ",", lane.second));
    std::vector<std::string> parts;
    for (const auto& [alike, text] : of) {
      parts.push_back(alike);
      parts.push_back(text);
    }
    lines.push_back(Pack(parts));
  }
  return lines;
}

using Lanes = std::map<std::string, std::string>;  // by name, the process's text

absl::StatusOr<std::vector<Lanes>> ExchangeLanes(World* world,
                                                 const std::vector<std::string>& mine) {
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> given, world->Exchange(Pack(mine)));
  std::vector<Lanes> all;
  for (const std::string& bytes : given) {
    const auto lines = Unpack(bytes);
    if (!lines.has_value() || lines->size() % 2 != 0) {
      return absl::InternalError("a list of calls cannot be read");
    }
    Lanes& lanes = all.emplace_back();
    for (size_t i = 0; i < lines->size(); i += 2) lanes[(*lines)[i]] = (*lines)[i + 1];
  }
  return all;
}

// The ranks in a lane: of "0,1#2:0,1" both, of "3,4,5#0:-1,-1" all.
std::vector<int> RanksOfLane(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, absl::ByAnyChar("#:"));
  std::vector<int> ranks, members;
  for (const auto part : absl::StrSplit(parts[0], ',')) {
    int rank = 0;
    if (absl::SimpleAtoi(part, &rank)) ranks.push_back(rank);
  }
  if (parts.size() < 3 || parts[2] == "-1,-1") return ranks;
  for (const auto part : absl::StrSplit(parts[2], ',')) {
    int member = 0;
    if (absl::SimpleAtoi(part, &member) && member >= 0 && member < static_cast<int>(ranks.size())) {
      members.push_back(ranks[member]);
    }
  }
  return members;
}

// The first lane in which two ranks differ, and these ranks. Empty name: none.
struct Difference {
  std::string lane;
  int one = 0, other = 0;
};
Difference FirstDifference(const std::vector<Lanes>& all) {
  const auto of = [](const Lanes& lanes, const std::string& name) {
    const auto found = lanes.find(name);
    return found == lanes.end() ? std::string() : found->second;
  };
  for (const Lanes& lanes : all) {
    for (const auto& [name, value] : lanes) {
      const std::vector<int> ranks = RanksOfLane(name);
      for (const int rank : ranks) {
        if (rank >= static_cast<int>(all.size())) continue;
        if (of(all[rank], name) != of(all[ranks[0]], name)) return {name, ranks[0], rank};
      }
    }
  }
  return {};
}

// The error at the first difference between two lists of a lane, as made by Whole.
absl::Status DifferenceError(const Difference& where, const std::vector<Lanes>& all) {
  std::vector<std::string> lists[2];
  const int ranks[] = {where.one, where.other};
  for (int i = 0; i < 2; ++i) {
    const auto found = all[ranks[i]].find(where.lane);
    if (found != all[ranks[i]].end()) lists[i] = Unpack(found->second).value_or(lists[i]);
  }
  size_t at = 0;
  while (at + 1 < lists[0].size() && at + 1 < lists[1].size() && lists[0][at] == lists[1][at]) {
    at += 2;
  }
  const auto text = [&](int i) {
    return at + 1 < lists[i].size() ? lists[i][at + 1] : std::string("nothing more");
  };
  return absl::InvalidArgumentError(absl::StrCat("call ", at / 2 + 1, " of ranks ", ranks[0],
                                                 " and ", ranks[1], " differs: ", text(0), " met ",
                                                 text(1)));
}

}  // namespace

absl::Status NcclGroups::CheckCalls() {
  calls_differ_ = CompareCalls();
  return calls_differ_;
}

absl::Status NcclGroups::CompareCalls() {
  std::vector<std::string> digests, whole;
  std::map<std::string, int> made;
  for (NcclGroup& group : groups_) {
    if (group.member_.own() < 0 || group.members() < 2) continue;
    const std::string ranks = absl::StrJoin(group.ranks_, ",");
    const std::string name = absl::StrCat(ranks, "#", made[ranks]++);
    const Calls calls = CallsOf(group.enqueued_, group.member_.own());
    for (std::string& line : Digest(name, calls)) digests.push_back(std::move(line));
    for (std::string& line : Whole(name, calls)) whole.push_back(std::move(line));
    group.enqueued_ = {};
    group.checked_ = true;
  }
  SL_ASSIGN_OR_RETURN(const std::vector<Lanes> lanes, ExchangeLanes(world_, digests));
  const Difference difference = FirstDifference(lanes);
  if (difference.lane.empty()) return absl::OkStatus();
  // All processes find the same difference, so all come here.
  SL_ASSIGN_OR_RETURN(const std::vector<Lanes> lists, ExchangeLanes(world_, whole));
  return DifferenceError(difference, lists);
}

}  // namespace stringline
