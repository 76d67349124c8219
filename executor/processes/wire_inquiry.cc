// An answer is packed as records of five texts: what it is of, two numbers, a time and a name.
#include "executor/processes/wire_inquiry.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/processes/frames.h"

namespace stringline {
namespace {

constexpr size_t kRecordFields = 5;  // of a record
constexpr absl::string_view kWait = "wait", kMessage = "message", kDoing = "doing",
                            kCompleted = "completed";

std::string PrintDuration(int64_t ns) {
  return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9);
}

// The longest wait of each rank, or null.
std::vector<const RankWait*> LongestByRank(const WireAnswers& answers) {
  std::vector<const RankWait*> longest(answers.names.size(), nullptr);
  for (const RankWait& wait : answers.all.waits) {
    const RankWait*& of = longest[wait.rank];
    if (of == nullptr || wait.waited_ns > of->waited_ns) of = &wait;
  }
  return longest;
}

std::string DescribeWait(const WireAnswers& answers, const RankWait& wait,
                         absl::string_view awaited) {
  return absl::StrCat("; ", answers.names[wait.rank], " waited ", PrintDuration(wait.waited_ns),
                      " for ", awaited, " in ", wait.call);
}

const RankState* StateOf(const WireAnswers& answers, int rank) {
  for (const RankState& state : answers.all.states) {
    if (state.rank == rank) return &state;
  }
  return nullptr;
}

bool IsAmong(int rank, const std::vector<int>& ranks) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

std::string PackAnswer(WireAnswer answer, size_t most_bytes) {
  std::stable_sort(answer.waits.begin(), answer.waits.end(),
                   [](const RankWait& a, const RankWait& b) { return a.waited_ns > b.waited_ns; });
  std::vector<std::string> parts;
  size_t bytes = 0;
  const auto add = [&](absl::string_view what, int one, int other, int64_t ns,
                       const std::string& name) {
    const std::vector<std::string> record = {std::string(what), absl::StrCat(one),
                                             absl::StrCat(other), absl::StrCat(ns), name};
    bytes += Pack(record).size();
    if (bytes <= most_bytes) parts.insert(parts.end(), record.begin(), record.end());
  };
  for (const RankWait& wait : answer.waits) {
    add(kWait, wait.rank, wait.peer, wait.waited_ns, wait.call);
  }
  for (const RankState& state : answer.states) {
    if (!state.doing.empty()) add(kDoing, state.rank, 0, state.doing_ns, state.doing);
    if (!state.completed.empty()) add(kCompleted, state.rank, 0, state.ago_ns, state.completed);
  }
  for (const LastMessage& message : answer.messages) {
    add(kMessage, message.rank, message.peer, message.ago_ns, message.call);
  }
  return Pack(parts);
}

std::optional<WireAnswer> UnpackAnswer(absl::string_view bytes, int ranks) {
  const auto parts = Unpack(bytes);
  if (!parts || parts->size() % kRecordFields != 0) return std::nullopt;
  WireAnswer answer;
  const auto state_of = [&](int rank) -> RankState& {
    for (RankState& state : answer.states) {
      if (state.rank == rank) return state;
    }
    RankState& state = answer.states.emplace_back();
    state.rank = rank;
    return state;
  };
  for (size_t i = 0; i < parts->size(); i += kRecordFields) {
    const std::string &what = (*parts)[i], &name = (*parts)[i + 4];
    int one = 0, other = 0;
    int64_t ns = 0;
    if (!absl::SimpleAtoi((*parts)[i + 1], &one) || !absl::SimpleAtoi((*parts)[i + 2], &other) ||
        !absl::SimpleAtoi((*parts)[i + 3], &ns) || std::min(one, other) < 0 ||
        std::max(one, other) >= ranks) {
      return std::nullopt;
    }
    if (what == kWait) {
      answer.waits.push_back({one, other, ns, name});
    } else if (what == kMessage) {
      answer.messages.push_back({one, other, ns, name});
    } else if (what == kDoing) {
      state_of(one).doing = name;
      state_of(one).doing_ns = ns;
    } else if (what == kCompleted) {
      state_of(one).completed = name;
      state_of(one).ago_ns = ns;
    } else {
      return std::nullopt;
    }
  }
  return answer;
}

void WireAnswers::Add(const WireAnswer& answer) {
  all.waits.insert(all.waits.end(), answer.waits.begin(), answer.waits.end());
  all.messages.insert(all.messages.end(), answer.messages.begin(), answer.messages.end());
  all.states.insert(all.states.end(), answer.states.begin(), answer.states.end());
}

std::string DescribeKnown(const WireAnswers& answers, const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    const RankState* const state = StateOf(answers, rank);
    if (state == nullptr || state->completed.empty()) continue;
    absl::StrAppend(&text, "; ", answers.names[rank], " completed ", state->completed, " last, ",
                    PrintDuration(state->ago_ns), " ago");
  }
  if (!text.empty()) return text;
  const LastMessage* last = nullptr;
  for (const LastMessage& message : answers.all.messages) {
    if (!IsAmong(message.peer, ranks)) continue;
    if (last == nullptr || message.ago_ns < last->ago_ns) last = &message;
  }
  if (last == nullptr) return "";
  return absl::StrCat("; the last known of ", answers.names[last->peer], ": ",
                      answers.names[last->rank], " completed ", last->call, " with it, ",
                      PrintDuration(last->ago_ns), " ago");
}

std::string DescribeBlame(const WireAnswers& answers) {
  const std::vector<const RankWait*> longest = LongestByRank(answers);
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
    const RankState* const state = StateOf(answers, peer);
    if (!answers.answered[peer]) {
      end = " does not answer: its process was stopped, or its host is lost";
    } else if (longest[peer] == nullptr && state != nullptr && !state->doing.empty()) {
      end = absl::StrCat(" ", state->doing, ", for ", PrintDuration(state->doing_ns), " now");
    } else if (longest[peer] == nullptr) {
      end = " still computes, or waits inside its process";
    } else if (seen[peer]) {
      end = " waits for others that wait for it in a circle";
    } else {
      wait = longest[peer];
    }
  }
  return absl::StrCat(answers.names[wait->peer], end, DescribeWait(answers, *wait, "it"),
                      DescribeKnown(answers, {wait->peer}));
}

std::string DescribeLost(const WireAnswers& answers, const std::vector<int>& ranks) {
  const RankWait* longest = nullptr;
  for (const RankWait& wait : answers.all.waits) {
    if (!IsAmong(wait.peer, ranks)) continue;
    if (longest == nullptr || wait.waited_ns > longest->waited_ns) longest = &wait;
  }
  if (longest == nullptr) return DescribeKnown(answers, ranks);
  const std::string awaited = ranks.size() == 1 ? "it" : answers.names[longest->peer];
  return absl::StrCat(DescribeWait(answers, *longest, awaited), DescribeKnown(answers, ranks));
}

}  // namespace stringline
