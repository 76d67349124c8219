// Connections and bytes of runs with so many processes, counted without a process being started.
//
//   scale_count [P [N …]]                                  8 64 256 1024 4096 10000
//
// A training of N / P copies of a pipeline of P ranks, a process for each rank, eight processes a
// host. The groups are made by the code that makes a training's, and the peers are chosen by the
// code that connects processes. Prints a line per N:
//
//   peers     connections for messages and collectives: of process 0, of the process with the most,
//             and of the median of the processes that do not decide on failures
//   hosts     connections of the world: of process 0, one to each; of another one at most, to
//             process 0, its parent and each child
//   depth     of the tree: the children's parents between the last process and process 0
//   bytes     a step's sums over the hosts, received: by process 0, by the process with the most
//             children, by one without; as many are sent
//   start     bytes of names and addresses sent before the first step: by process 0, by the other
//             with the most children
//
// Every fourth process, but at most a few hundred, is counted.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/engine/message_groups.h"
#include "executor/processes/process_names.h"
#include "executor/processes/process_tree.h"
#include "executor/processes/tree_world.h"
#include "executor/processes/wire_peers.h"
#include "executor/run/train.h"
#include "executor/training/replicas.h"
#include "executor/training/shared_figures.h"
#include "schedlang/base/sl_check.h"
#include "tools/microbench/library_plan.h"

namespace stringline {
namespace {

constexpr int kProcessesOfHost = 8;
constexpr int kMostCounted = 300;

// Notes the groups of a training, which are never used.
class NotedGroups final : public Groups {
 public:
  struct Noted {
    std::vector<int> ranks;
    std::vector<MemberPair> talks;
  };
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override {
    all_.push_back({{ranks.begin(), ranks.end()}, {talks.begin(), talks.end()}});
    return nullptr;
  }
  const std::vector<Noted>& all() const { return all_; }

 private:
  std::vector<Noted> all_;
};

// One of the processes, with a rank of its own, which exchanges nothing.
class CountedWorld final : public World {
 public:
  CountedWorld(int process, int processes) : process_(process), processes_(processes) {}
  int ranks() const override { return processes_; }
  absl::Span<const int> local() const override { return absl::MakeConstSpan(&process_, 1); }
  int processes() const override { return processes_; }
  int process() const override { return process_; }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view /*mine*/) override {
    return absl::UnimplementedError("nothing is exchanged");
  }
  void Fail(const absl::Status& /*status*/) override {}

 private:
  const int process_, processes_;
};

NotedGroups GroupsOf(const Plan& plan, int copies) {
  NotedGroups groups;
  Mesh mesh;
  mesh.data = copies;
  const Replicas replicas(plan, mesh, &groups);
  for (int c = 0; c < copies; ++c) {
    const MessageGroups messages(plan, CommLayout::kEdge, c * plan.ranks(), &groups);
  }
  return groups;
}

int64_t PeersOf(int process, int processes, const NotedGroups& groups) {
  const CountedWorld world(process, processes);
  ProcessNames names(world);
  for (int p = 0; p < processes; ++p) {
    names.Add(p, absl::StrCat("host", p / kProcessesOfHost), {p});
  }
  WirePeers peers(&names);
  for (const NotedGroups::Noted& group : groups.all()) peers.NoteGroup(group.ranks, group.talks);
  const std::vector<bool> all = peers.All();
  return std::count(all.begin(), all.end(), true);
}

// The bytes that a process receives in a step: the sums of results, of squares, and of wishes.
int64_t BytesOfStep(const TreePlace& place) {
  int64_t bytes = 0;
  for (const int words : {SharedFigures::kResultWords, SharedFigures::kSquareWords, kWishWords}) {
    bytes += TreeWorld::BytesOfSum(place, words);
  }
  return bytes;
}

// The bytes of texts of all: names of hosts, and addresses of ranks (wire_connect.cc).
int64_t BytesOfTexts(int processes) {
  constexpr int64_t kPacked = 4, kAddress = 4 * sizeof(int32_t) + sizeof("10.11.12.13") - 1;
  int64_t bytes = 0;
  for (int p = 0; p < processes; ++p) {
    const auto name = static_cast<int64_t>(absl::StrCat("host", p / kProcessesOfHost).size());
    bytes += 2 * kPacked + 2 * name + kAddress;
  }
  return bytes;
}

void CountTree(int processes) {
  const TreePlace first = PlaceInTree(0, processes, kTreeFanOut);
  TreePlace widest;
  const TreePlace leaf = PlaceInTree(processes - 1, processes, kTreeFanOut);
  int depth = 0, most = 0;
  for (int p = 1; p < processes; ++p) {
    const TreePlace place = PlaceInTree(p, processes, kTreeFanOut);
    most = std::max(most, 1 + (place.parent > 0) + static_cast<int>(place.children.size()));
    if (place.children.size() > widest.children.size()) widest = place;
  }
  for (TreePlace at = leaf; at.parent >= 0; ++depth) {
    at = PlaceInTree(at.parent, processes, kTreeFanOut);
  }
  // All texts come up once, but its own, and go down once for each child.
  const int64_t texts = BytesOfTexts(processes);
  std::cout << absl::StreamFormat(
      "   hosts %6d, %d   depth %d   bytes of a step %6d, %6d, %d   start %9d, %9d\n",
      processes - 1, most, depth, BytesOfStep(first), BytesOfStep(widest), BytesOfStep(leaf),
      texts * static_cast<int64_t>(first.children.size()),
      texts * static_cast<int64_t>(widest.children.size()));
}

void Count(int stages, int processes) {
  const std::optional<Plan> plan = LibraryPlan("1f1b", stages, 2 * stages);
  SL_CHECK(plan.has_value()) << stages;
  const NotedGroups groups = GroupsOf(*plan, processes / stages);
  const int apart = std::max(4, processes / kMostCounted);
  std::vector<int64_t> others;
  int64_t first = 0, most = 0;
  for (int p = 0; p < processes; p += apart) {
    const int64_t peers = PeersOf(p, processes, groups);
    most = std::max(most, peers);
    if (p == 0) first = peers;
    // Process 0 and the first processes of the next two hosts decide.
    if (p % kProcessesOfHost != 0 || p > 2 * kProcessesOfHost) others.push_back(peers);
  }
  std::nth_element(others.begin(), others.begin() + others.size() / 2, others.end());
  std::cout << absl::StreamFormat("N %6d   peers %6d, most %6d, median %6d", processes, first, most,
                                  others[others.size() / 2]);
  CountTree(processes);
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const int stages = argc > 1 ? std::atoi(argv[1]) : 8;
  std::vector<int> counts;
  for (int i = 2; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
  if (counts.empty()) counts = {64, 256, 1024, 4096, 10'000};
  for (const int processes : counts) {
    if (stages < 1 || processes < 4 * stages || processes % stages != 0) {
      std::cerr << processes << " processes are not several copies of " << stages << " stages\n";
      return 1;
    }
    stringline::Count(stages, processes);
  }
}
