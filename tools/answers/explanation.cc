// The chain of an action's waits has a line for each link; runs with the same reason are folded, so
// the answer fits a screen.
#include "tools/answers/explanation.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/communicators.h"
#include "tools/answers/order_note.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// A plan, its timeline, and its source.
struct ExplainedPlan {
  const Plan& plan;
  const Timeline& timeline;
  const Source& source;

  int Rank(uint32_t action) const { return RankOf(plan, plan.actions[action]).value; }
  // A group whole; of messages and collectives each has its own name.
  std::string Name(uint32_t action) const {
    return IsCompute(plan.actions[action].kind) ? PrintGroup(plan, plan.actions, action)
                                                : Print(plan, plan.actions[action]);
  }
  int64_t Start(uint32_t action) const { return timeline.events[action].start_ns; }
  int64_t End(uint32_t action) const { return timeline.events[action].end_ns; }
  std::string Value(uint32_t part, Values value) const {
    const Action& action = plan.actions[part];
    return Describe(plan, action.stage, action.microbatch, value);
  }
  // "gradient of 2B0": a value by its computation.
  std::string ValueOf(uint32_t giver, Values value) const {
    return absl::StrCat(value & kInput ? "activation of " : "gradient of ",
                        Print(plan, plan.actions[giver]));
  }
  // "iteration 3.1", or "" outside loops.
  std::string Iteration(uint32_t action) const {
    const std::string where = WhereOf(plan, plan.actions[action]);
    return where.rfind("iteration", 0) == 0 ? where.substr(0, where.find(',')) : "";
  }
  LineColumn Place(uint32_t action) const {
    return source.Locate(SpanOf(plan, plan.actions[action]).begin);
  }
  // The action's file if it is another than the source itself: "1f1b.sched".
  std::string OtherFile(uint32_t action) const {
    const std::string& path = source.PathAt(SpanOf(plan, plan.actions[action]).begin);
    if (path == source.path()) return "";
    return path.substr(path.rfind('/') + 1);
  }
  // "line 12, iteration 3", "1f1b.sched:12": of the group's first part.
  std::string Written(uint32_t group) const {
    const std::string iteration = Iteration(group), file = OtherFile(group);
    return absl::StrCat(file.empty() ? "line " : absl::StrCat(file, ":"), Place(group).line,
                        iteration.empty() ? "" : ", ", iteration);
  }
};

// "rank 1's queue of communicator 0-1"
std::string PrintQueue(const ExplainedPlan& at, const WaitLink& link) {
  const CommQueues queues = QueuesOf(ChannelsOf(at.plan), at.timeline.layout);
  return absl::StrCat("rank ", link.rank.value, "'s queue of communicator ",
                      queues.all[static_cast<size_t>(link.queue)].communicator);
}

// The reason of a message's link.
std::string WhyMessage(const ExplainedPlan& at, const WaitLink& link) {
  const std::string with =
      link.together_with ? absl::StrCat("in one call with ",
                                        Print(at.plan, at.plan.actions[*link.together_with]), ": ")
                         : "";
  switch (link.reason) {
    case WaitReason::kValue:
      return absl::StrCat(with, "left when ", at.Name(link.cause), " had ended");
    case WaitReason::kBuffer:
      return absl::StrCat(with, "no receive buffer of rank ", link.rank.value,
                          " was free until the end of ", at.Name(link.cause));
    default:
      return absl::StrCat("was behind ", at.Name(link.cause), " in ", PrintQueue(at, link));
  }
}

std::string Why(const ExplainedPlan& at, const WaitLink& link) {
  switch (link.reason) {
    case WaitReason::kNothing:
      return "starts with the step";
    case WaitReason::kRank:
      return absl::StrCat("rank ", at.Rank(link.action), " was busy with ", at.Name(link.cause));
    case WaitReason::kGather:
      return absl::StrCat("waited ", PrintTime(link.idle_ns),
                          at.plan.actions[link.cause].kind == ActionKind::kReduceGrad
                              ? " for the sum of the gradients of stage "
                              : " for the parameters of stage ",
                          PrintStage(at.plan.pipes, at.plan.actions[link.part].stage));
    case WaitReason::kValue:
    case WaitReason::kQueue:
    case WaitReason::kBuffer:
      return WhyMessage(at, link);
    case WaitReason::kCollective:
      return absl::StrCat("came after ", at.Name(link.cause));
    case WaitReason::kOtherRank:
      return absl::StrCat("waited for rank ", at.Rank(link.cause), " to come with ",
                          at.Name(link.cause));
    case WaitReason::kCopy:
      return IsCopy(at.plan.actions[link.action].kind)
                 ? absl::StrCat("came after ", at.Name(link.cause))
                 : absl::StrCat("waited ", PrintTime(link.idle_ns), " for the end of ",
                                at.Name(link.cause), ", a copy");
    case WaitReason::kOwn:
      return absl::StrCat(
          link.idle_ns > 0 ? absl::StrCat("waited ", PrintTime(link.idle_ns), " for") : "came at",
          " the end of ", at.Name(link.cause),
          at.Rank(link.cause) == at.Rank(link.action)
              ? ""
              : absl::StrCat(" on rank ", at.Rank(link.cause)));
    case WaitReason::kMessage:
      break;
  }
  const std::string why =
      absl::StrCat("waited ", PrintTime(link.idle_ns), " for the ",
                   at.ValueOf(link.giver, link.value), " from rank ", at.Rank(link.giver));
  const int64_t hop_ns = link.arrived_ns - link.sent_ns;
  if (!IsCompute(at.plan.actions[link.cause].kind)) return why + ", which left late";
  return hop_ns == 0 ? why : absl::StrCat(why, ", hop ", PrintTime(hop_ns));
}

std::string WhyAfter(const ExplainedPlan& at, uint32_t group, const WaitingGroup& waiting) {
  const std::string what =
      waiting.reason == WaitReason::kRank
          ? absl::StrCat("next on rank ", at.Rank(group))
          : absl::StrCat("needs the ", at.ValueOf(waiting.giver, waiting.value));
  const int64_t late_ns = at.Start(waiting.group) - waiting.ready_ns;
  return late_ns == 0 ? what : absl::StrCat(what, ", but starts ", PrintTime(late_ns), " later");
}

// The columns are as wide as their longest entries.
struct ExplainColumns {
  int action = 6;
  int written = 7;

  void Fit(const ExplainedPlan& at, uint32_t fitted) {
    action = std::max(action, static_cast<int>(at.Name(fitted).size()));
    written = std::max(written, static_cast<int>(at.Written(fitted).size()));
  }
  void Print(const ExplainedPlan& at, uint32_t action, int64_t end_ns, const std::string& why,
             std::ostream& out) const {
    out << absl::StreamFormat("  %4d  %-*s %12s %12s  %-*s  %s\n", at.Rank(action), this->action,
                              at.Name(action), PrintTime(at.Start(action)), PrintTime(end_ns),
                              written, at.Written(action), why);
  }
};

// A line of the chain: a single link, or many hidden links.
struct ChainLine {
  size_t first = 0;
  size_t links = 1;
  bool folded = false;
};

bool IsAlike(const WaitLink& one, const WaitLink& other) {
  return one.reason == other.reason &&
         (one.reason != WaitReason::kMessage || one.value == other.value);
}

// Runs of links with the same reason become their first link, a fold, and their last link.
std::vector<ChainLine> FoldRuns(absl::Span<const WaitLink> chain) {
  constexpr size_t kShortest = 5;
  std::vector<ChainLine> lines;
  for (size_t i = 0; i < chain.size();) {
    size_t end = i + 1;
    while (end < chain.size() && IsAlike(chain[i], chain[end])) ++end;
    if (end - i < kShortest) {
      for (; i < end; ++i) lines.push_back({i});
      continue;
    }
    lines.insert(lines.end(), {{i}, {i + 1, end - i - 2, true}, {end - 1}});
    i = end;
  }
  return lines;
}

// Chains still too long for a screen lose their middle.
std::vector<ChainLine> FoldToScreen(std::vector<ChainLine> lines) {
  constexpr size_t kBegin = 16, kEnd = 12;
  if (lines.size() <= kBegin + kEnd + 1) return lines;
  const ChainLine& last = lines[lines.size() - kEnd - 1];
  const size_t first = lines[kBegin].first;
  lines[kBegin] = {first, last.first + last.links - first, true};
  lines.erase(lines.begin() + kBegin + 1, lines.end() - kEnd);
  return lines;
}

// The words for folded links of a reason, before the ranks; a busy rank has words of its own.
constexpr const char* kFolded[kWaitReasons] = {
    "",
    "",
    "each waited for a value of the next, on ",
    "each waited for parameters, on ",
    "each left when the next had ended, on ",
    "each was behind the next in a queue, on ",
    "each waited for a receive buffer, on ",
    "each came after the next, on ",
    "each waited for another rank, on ",
    "each waited for a copy, on ",
    "each waited for the end of the next, on ",
};

std::string Times(size_t count) { return count == 1 ? "once" : absl::StrCat(count, " times"); }

// "… 97 more, back to 4 ms: rank 0 was busy" of a fold.
std::string PrintFold(const ExplainedPlan& at, absl::Span<const WaitLink> links) {
  size_t busy = 0;
  std::set<int> ranks;
  bool alike = true;
  for (const WaitLink& link : links) {
    busy += link.reason == WaitReason::kRank ? 1 : 0;
    alike = alike && link.reason == links[0].reason;
    ranks.insert(at.Rank(link.action));
  }
  const std::string where = ranks.size() == 1
                                ? absl::StrCat("rank ", *ranks.begin())
                                : absl::StrCat("ranks ", *ranks.begin(), " .. ", *ranks.rbegin());
  std::string what = absl::StrCat(where, ranks.size() == 1 ? " was busy" : " were busy");
  if (busy == 0) {
    what = absl::StrCat(
        alike ? kFolded[static_cast<int>(links[0].reason)] : "each waited for the next, on ",
        where);
  } else if (busy < links.size()) {
    absl::StrAppend(&what, " ", Times(busy), " and waited ", Times(links.size() - busy));
  }
  return absl::StrCat("… ", links.size(), " more, back to ",
                      PrintTime(at.Start(links.back().action)), ": ", what);
}

void PrintChain(const ExplainedPlan& at, absl::Span<const WaitLink> chain, bool all,
                const ExplainColumns& columns, std::ostream& out) {
  std::vector<ChainLine> lines;
  if (all) {
    for (size_t i = 0; i < chain.size(); ++i) lines.push_back({i});
  } else {
    lines = FoldToScreen(FoldRuns(chain));
  }
  bool folded = false;
  for (const ChainLine& line : lines) {
    const auto links = chain.subspan(line.first, line.links);
    folded = folded || line.folded;
    if (line.folded) {
      out << "        " << PrintFold(at, links) << "\n";
    } else {
      columns.Print(at, links[0].action, links[0].end_ns, Why(at, links[0]), out);
    }
  }
  if (folded) out << "        (--all shows every one)\n";
}

Json ActionAsJson(const ExplainedPlan& at, uint32_t action, int64_t end_ns) {
  const LineColumn place = at.Place(action);
  return {{"action", at.Name(action)},
          {"rank", at.Rank(action)},
          {"start_us", Microseconds(at.Start(action))},
          {"end_us", Microseconds(end_ns)},
          {"file", at.source.PathAt(SpanOf(at.plan, at.plan.actions[action]).begin)},
          {"line", place.line},
          {"column", place.column},
          {"where", at.Iteration(action)}};
}

// `next` is the link of the cause; null without a cause.
Json LinkAsJson(const ExplainedPlan& at, const WaitLink& link, const WaitLink* next) {
  constexpr const char* kReasons[kWaitReasons] = {"start",      "rank",  "message", "parameters",
                                                  "value",      "queue", "buffer",  "collective",
                                                  "other rank", "copy",  "own"};
  Json json = ActionAsJson(at, link.action, link.end_ns);
  json["waited_for"] = kReasons[static_cast<int>(link.reason)];
  if (next == nullptr) return json;
  json["cause"] = at.Name(link.cause);
  if (link.together_with) {
    json["together_with"] = Print(at.plan, at.plan.actions[*link.together_with]);
  }
  switch (link.reason) {
    case WaitReason::kGather:
      json["idle_us"] = Microseconds(link.idle_ns);
      json["stage"] = PrintStage(at.plan.pipes, at.plan.actions[link.part].stage);
      break;
    case WaitReason::kMessage:
      json["idle_us"] = Microseconds(link.idle_ns);
      json["value"] = at.Value(link.part, link.value);
      json["from_rank"] = at.Rank(link.giver);
      json["sent_us"] = Microseconds(link.sent_ns);
      json["arrived_us"] = Microseconds(link.arrived_ns);
      if (next->reason == WaitReason::kQueue) json["behind"] = at.Name(next->cause);
      break;
    case WaitReason::kQueue:
      json["in"] = PrintQueue(at, link);
      break;
    case WaitReason::kBuffer:
      json["buffer_of_rank"] = link.rank.value;
      break;
    default:
      break;
  }
  return json;
}

}  // namespace

void PrintExplanation(const Session& step, const Explanation& explanation, bool all,
                      std::ostream& out) {
  const ExplainedPlan at{*step.plan, *step.timeline, step.source};
  const uint32_t group = explanation.chain.front().action;
  ExplainColumns columns;
  for (const WaitLink& link : explanation.chain) columns.Fit(at, link.action);
  for (const WaitingGroup& waiting : explanation.after) columns.Fit(at, waiting.group);
  out << TitleOf(at.timeline) << ": " << at.Name(group) << " on rank " << at.Rank(group)
      << " starts at " << PrintTime(at.Start(group)) << " and ends at " << PrintTime(at.End(group))
      << "\n";
  const std::string note = OrderNote(*step.plan, *step.costs);
  if (!note.empty()) out << note << "\n";
  out << "\nWhy not earlier:\n";
  out << absl::StreamFormat("  %4s  %-*s %12s %12s  %-*s  %s\n", "rank", columns.action, "action",
                            "start", "end", columns.written, "written", "because");
  PrintChain(at, explanation.chain, all, columns, out);
  if (explanation.after.empty()) {
    out << "\nNothing waits for it.\n";
    return;
  }
  out << "\nWhat waits for it:\n";
  for (const WaitingGroup& waiting : explanation.after) {
    columns.Print(at, waiting.group, at.End(waiting.group), WhyAfter(at, group, waiting), out);
  }
}

Json ExplanationAsJson(const Session& step, const Explanation& explanation) {
  const ExplainedPlan at{*step.plan, *step.timeline, step.source};
  Json chain = Json::array(), after = Json::array();
  for (size_t i = 0; i < explanation.chain.size(); ++i) {
    const bool last = i + 1 == explanation.chain.size();
    chain.push_back(
        LinkAsJson(at, explanation.chain[i], last ? nullptr : &explanation.chain[i + 1]));
  }
  for (const WaitingGroup& waiting : explanation.after) {
    Json json = ActionAsJson(at, waiting.group, at.End(waiting.group));
    json["waits_for"] = waiting.reason == WaitReason::kRank ? "rank" : "value";
    if (waiting.reason != WaitReason::kRank) json["value"] = at.Value(waiting.part, waiting.value);
    json["ready_us"] = Microseconds(waiting.ready_ns);
    after.push_back(std::move(json));
  }
  Json json = {{"ok", true},
               {"schedule", at.plan.schedule},
               {"parameters", ParametersAsJson(at.plan.parameters)},
               {"chain", std::move(chain)},
               {"after", std::move(after)}};
  AddOrderedFor(*step.plan, *step.costs, &json);
  return json;
}

}  // namespace stringline
