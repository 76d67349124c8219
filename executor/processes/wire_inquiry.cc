#include "executor/processes/wire_inquiry.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/processes/frames.h"

namespace stringline {
namespace {

constexpr size_t kParts = 4;  // of a wait

// The longest wait of each rank, or null.
std::vector<const RankWait*> LongestByRank(const WaitingRanks& ranks) {
  std::vector<const RankWait*> longest(ranks.names.size(), nullptr);
  for (const RankWait& wait : ranks.waits) {
    const RankWait*& of = longest[wait.rank];
    if (of == nullptr || wait.waited_ns > of->waited_ns) of = &wait;
  }
  return longest;
}

std::string InSeconds(int64_t ns) { return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9); }

}  // namespace

std::string PackWaits(std::vector<RankWait> waits, size_t most_bytes) {
  std::stable_sort(waits.begin(), waits.end(),
                   [](const RankWait& a, const RankWait& b) { return a.waited_ns > b.waited_ns; });
  std::vector<std::string> parts;
  for (const RankWait& wait : waits) {
    const size_t before = parts.size();
    for (const int64_t number : {int64_t{wait.rank}, int64_t{wait.peer}, wait.waited_ns}) {
      parts.push_back(absl::StrCat(number));
    }
    parts.push_back(wait.call);
    if (Pack(parts).size() > most_bytes) {
      parts.resize(before);
      break;
    }
  }
  return Pack(parts);
}

std::optional<std::vector<RankWait>> UnpackWaits(absl::string_view bytes) {
  const auto parts = Unpack(bytes);
  if (!parts || parts->size() % kParts != 0) return std::nullopt;
  std::vector<RankWait> waits;
  for (size_t i = 0; i < parts->size(); i += kParts) {
    RankWait& wait = waits.emplace_back();
    if (!absl::SimpleAtoi((*parts)[i], &wait.rank) ||
        !absl::SimpleAtoi((*parts)[i + 1], &wait.peer) ||
        !absl::SimpleAtoi((*parts)[i + 2], &wait.waited_ns)) {
      return std::nullopt;
    }
    wait.call = (*parts)[i + 3];
  }
  return waits;
}

std::string DescribeBlame(const WaitingRanks& ranks) {
  const std::vector<const RankWait*> longest = LongestByRank(ranks);
  const RankWait* wait = nullptr;
  for (const RankWait* const of : longest) {
    if (of != nullptr && (wait == nullptr || of->waited_ns > wait->waited_ns)) wait = of;
  }
  if (wait == nullptr) return "";
  std::vector<bool> seen(longest.size(), false);
  std::string end;
  while (end.empty()) {
    seen[wait->rank] = true;
    const int peer = wait->peer;
    if (!ranks.answered[peer]) {
      end = " does not answer: its process was stopped, or its host is lost";
    } else if (longest[peer] == nullptr) {
      end = " still computes, or waits inside its process";
    } else if (seen[peer]) {
      end = " waits for others that wait for it in a circle";
    } else {
      wait = longest[peer];
    }
  }
  return absl::StrCat(ranks.names[wait->peer], end, "; ", ranks.names[wait->rank], " waited ",
                      InSeconds(wait->waited_ns), " for it in ", wait->call);
}

}  // namespace stringline
