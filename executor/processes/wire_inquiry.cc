// An answer is packed as records of six texts: a sort, two ranks, a time, an action and a name.
#include "executor/processes/wire_inquiry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/processes/frames.h"

namespace stringline {
namespace {

constexpr size_t kRecordFields = 6;
constexpr absl::string_view kWait = "wait", kMessage = "message", kDoing = "doing",
                            kComputing = "computing", kNeeds = "needs", kCompleted = "completed";

std::string PrintDuration(int64_t ns) {
  constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;
  if (ns < kSecond) return absl::StrCat(ns / kMs, " ms");
  return absl::StrFormat("%.1f s", static_cast<double>(ns) / kSecond);
}

// By rank; null: not known.
using States = std::vector<const RankState*>;

States StatesOf(const WireAnswers& answers) {
  States states(answers.names.size(), nullptr);
  for (const RankState& state : answers.all.states) {
    if (states[state.rank] == nullptr) states[state.rank] = &state;
  }
  return states;
}

// For each rank the wait that blocks its next action, or else its longest wait, or null.
std::vector<const RankWait*> WaitByRank(const WireAnswers& answers, const States& states) {
  std::vector<const RankWait*> by_rank(answers.names.size(), nullptr);
  const auto holds_up = [&](const RankWait& wait) {
    const RankState* const state = states[wait.rank];
    return state != nullptr && state->needs >= 0 && wait.action == state->needs;
  };
  for (const RankWait& wait : answers.all.waits) {
    const RankWait*& of = by_rank[wait.rank];
    const auto key = [&](const RankWait& one) { return std::pair(holds_up(one), one.waited_ns); };
    if (of == nullptr || key(wait) > key(*of)) of = &wait;
  }
  return by_rank;
}

std::string DescribeWait(const WireAnswers& answers, const RankWait& wait,
                         absl::string_view awaited) {
  return absl::StrCat("; ", answers.names[wait.rank], " waited ", PrintDuration(wait.waited_ns),
                      " for ", awaited, " in ", wait.call);
}

bool Computes(const RankState* state) { return state != nullptr && state->computes; }

// A rank that waits in an all-to-all of its computation is held up. One that computes may wait for
// the next message already: that wait does not hold it up.
bool IsHeldUp(const RankWait* wait, const RankState* state) {
  if (wait == nullptr) return false;
  return !Computes(state) || (state->needs >= 0 && wait->action == state->needs);
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
  const auto add = [&](absl::string_view what, int one, int other, int64_t ns, int64_t action,
                       const std::string& name) {
    const std::vector<std::string> record = {std::string(what),    absl::StrCat(one),
                                             absl::StrCat(other),  absl::StrCat(ns),
                                             absl::StrCat(action), name};
    bytes += Pack(record).size();
    if (bytes <= most_bytes) parts.insert(parts.end(), record.begin(), record.end());
  };
  for (const RankWait& wait : answer.waits) {
    add(kWait, wait.rank, wait.peer, wait.waited_ns, wait.action, wait.call);
  }
  for (const RankState& state : answer.states) {
    if (!state.doing.empty()) {
      add(state.computes ? kComputing : kDoing, state.rank, 0, state.doing_ns, -1, state.doing);
    }
    if (!state.completed.empty()) add(kCompleted, state.rank, 0, state.ago_ns, -1, state.completed);
    if (state.needs >= 0) add(kNeeds, state.rank, 0, 0, state.needs, "");
  }
  for (const LastMessage& message : answer.messages) {
    add(kMessage, message.rank, message.peer, message.ago_ns, -1, message.call);
  }
  return Pack(parts);
}

std::optional<WireAnswer> UnpackAnswer(absl::string_view bytes, int ranks) {
  const auto parts = Unpack(bytes);
  if (!parts || parts->size() % kRecordFields != 0) return std::nullopt;
  WireAnswer answer;
  std::vector<int> place(ranks, -1);  // by rank
  const auto state_of = [&](int rank) -> RankState& {
    if (place[rank] < 0) {
      place[rank] = static_cast<int>(answer.states.size());
      answer.states.emplace_back().rank = rank;
    }
    return answer.states[place[rank]];
  };
  for (size_t i = 0; i < parts->size(); i += kRecordFields) {
    const std::string &what = (*parts)[i], &name = (*parts)[i + 5];
    int one = 0, other = 0;
    int64_t ns = 0, action = -1;
    if (!absl::SimpleAtoi((*parts)[i + 1], &one) || !absl::SimpleAtoi((*parts)[i + 2], &other) ||
        !absl::SimpleAtoi((*parts)[i + 3], &ns) || !absl::SimpleAtoi((*parts)[i + 4], &action) ||
        std::min(one, other) < 0 || std::max(one, other) >= ranks) {
      return std::nullopt;
    }
    if (what == kWait) {
      answer.waits.push_back({one, other, ns, name, action});
    } else if (what == kMessage) {
      answer.messages.push_back({one, other, ns, name});
    } else if (what == kNeeds) {
      state_of(one).needs = action;
    } else if (what == kDoing || what == kComputing) {
      state_of(one).computes = what == kComputing;
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
  const States states = StatesOf(answers);
  for (const int rank : ranks) {
    const RankState* const state = states[rank];
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

std::string DescribeDoing(const WireAnswers& answers, const std::vector<int>& ranks) {
  const States states = StatesOf(answers);
  const auto computes = [&](int rank) { return Computes(states[rank]); };
  const auto busy = std::find_if(ranks.begin(), ranks.end(), computes);
  const int rank = busy == ranks.end() ? ranks[0] : *busy;
  const RankState* const state = states[rank];
  const std::string& name = answers.names[rank];
  if (!answers.answered[rank]) {
    return name + " does not answer: its process was stopped, or its host is lost";
  }
  if (state == nullptr || state->doing.empty()) {
    return name + " still computes, or waits inside its process";
  }
  return absl::StrCat(name, " ", state->doing, ", for ", PrintDuration(state->doing_ns), " now");
}

std::string DescribeBlame(const WireAnswers& answers) {
  const States states = StatesOf(answers);
  const std::vector<const RankWait*> waits = WaitByRank(answers, states);
  const RankWait* wait = nullptr;
  for (const RankWait* const of : waits) {
    if (of != nullptr && (wait == nullptr || of->waited_ns > wait->waited_ns)) wait = of;
  }
  if (wait == nullptr) return "";
  std::vector<bool> seen(waits.size(), false);
  for (;;) {
    seen[wait->rank] = true;
    const int peer = wait->peer;
    // A rank that neither waits for a rank nor computes is in an exchange of the hosts, in which it
    // waits for the process that does not answer.
    if (answers.answered[peer] && waits[peer] == nullptr && !Computes(states[peer])) {
      const auto silent = std::find(answers.answered.begin(), answers.answered.end(), false);
      if (silent != answers.answered.end()) {
        const auto rank = static_cast<int>(silent - answers.answered.begin());
        return absl::StrCat(DescribeDoing(answers, {rank}),
                            DescribeWait(answers, *wait, answers.names[peer]), ", and ",
                            DescribeDoing(answers, {peer}), DescribeKnown(answers, {rank}));
      }
    }
    if (!answers.answered[peer] || !IsHeldUp(waits[peer], states[peer])) {
      return absl::StrCat(DescribeDoing(answers, {peer}), DescribeWait(answers, *wait, "it"),
                          DescribeKnown(answers, {peer}));
    }
    if (seen[peer]) {
      return absl::StrCat(answers.names[peer], " waits for others that wait for it in a cycle",
                          DescribeWait(answers, *wait, "it"), DescribeKnown(answers, {peer}));
    }
    wait = waits[peer];
  }
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
