// Computations are found first, for the whole trace; then every step's computations and messages
// are walked in the order of time, and get the names that torch's pipeline runtime gives.
#include "schedlang/torch/find_actions.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using RecordKind = HostRecord::Kind;

constexpr char kAdvice[] =
    "; profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and with_stack=True, "
    "which records the calls of forward_one_chunk and backward_one_chunk, and call profile.step() "
    "after every step";

struct Computation : TimeSpan {
  bool is_backward = false;
};

bool IsBefore(const TimeSpan& a, const TimeSpan& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
}

bool IsMessageRecord(const HostRecord& record) {
  return record.kind == RecordKind::kSend || record.kind == RecordKind::kRecv;
}

// The calls of torch's stage, of which forwards include the call for the loss.
std::vector<Computation> CallsOf(const std::vector<HostRecord>& records) {
  std::vector<Computation> calls;
  for (const HostRecord& record : records) {
    if (record.kind == RecordKind::kForwardCall || record.kind == RecordKind::kBackwardCall) {
      calls.push_back({record, record.kind == RecordKind::kBackwardCall});
    } else if (record.kind == RecordKind::kLossCall && !calls.empty() &&
               !calls.back().is_backward) {
      calls.back().end_ns = std::max(calls.back().end_ns, record.end_ns);
    }
  }
  return calls;
}

// Backwards and their forwards by autograd's numbers.
class NumberedNodes {
 public:
  explicit NumberedNodes(const std::vector<HostRecord>& records) : records_(records) {
    FindBackwards();
    FindForwards();
  }

  std::vector<Computation> Computations() const {
    std::vector<Computation> found;
    for (const Row& row : rows_) {
      found.push_back({row.span, true});
      if (row.made) found.push_back({*row.made, false});
    }
    std::sort(found.begin(), found.end(), IsBefore);
    return found;
  }

 private:
  struct Row {
    TimeSpan span;
    int64_t highest = -1;
    int64_t lowest = std::numeric_limits<int64_t>::max();
    std::optional<TimeSpan> made;  // the forward
  };

  // Rows of evaluations, those within another left out.
  void FindBackwards() {
    std::vector<std::pair<int64_t, int64_t>> ends;  // of the last evaluation, by thread
    for (const HostRecord& record : records_) {
      if (record.kind != RecordKind::kNode) continue;
      auto end = std::find_if(ends.begin(), ends.end(),
                              [&](const auto& of) { return of.first == record.thread; });
      if (end == ends.end()) end = ends.insert(end, {record.thread, record.start_ns});
      if (record.start_ns < end->second) continue;
      end->second = record.end_ns;
      const bool is_next =
          rows_.empty() || (rows_.back().highest >= 0 && record.sequence > rows_.back().highest);
      if (is_next) rows_.push_back({.span = record});
      Row& row = rows_.back();
      row.span.end_ns = std::max(row.span.end_ns, record.end_ns);
      row.highest = std::max(row.highest, record.sequence);
      if (record.sequence < 0) continue;
      row.lowest = std::min(row.lowest, record.sequence);
    }
  }

  // Numbers grow with time, so rows by their numbers are rows by time. An operator has the number
  // of the next node: the last that has a number made the node.
  void FindForwards() {
    const auto message = std::find_if(records_.begin(), records_.end(), IsMessageRecord);
    std::optional<int64_t> thread;
    if (message != records_.end()) thread = message->thread;
    TimeSpan outer{0, std::numeric_limits<int64_t>::min()};
    for (const HostRecord& record : records_) {
      if (record.kind != RecordKind::kOperator || thread.value_or(record.thread) != record.thread) {
        continue;
      }
      thread = record.thread;
      if (record.start_ns >= outer.end_ns) outer = record;
      Row* row = RowOf(record.sequence);
      if (row == nullptr || IsInBackward(record.start_ns)) continue;
      if (record.sequence == row->lowest) row->made = outer;
      if (record.sequence == row->highest && row->made) {
        row->made->end_ns = std::max(row->made->end_ns, outer.end_ns);
      }
    }
  }

  Row* RowOf(int64_t sequence) {
    const auto row =
        std::lower_bound(rows_.begin(), rows_.end(), sequence,
                         [](const Row& one, int64_t number) { return one.highest < number; });
    return row == rows_.end() || row->lowest > sequence ? nullptr : &*row;
  }

  bool IsInBackward(int64_t at_ns) const {
    const auto after =
        std::upper_bound(rows_.begin(), rows_.end(), at_ns,
                         [](int64_t ns, const Row& row) { return ns < row.span.start_ns; });
    return after != rows_.begin() && at_ns < std::prev(after)->span.end_ns;
  }

  const std::vector<HostRecord>& records_;
  std::vector<Row> rows_;
};

// A part of a rank's time, and its computations [first, end).
struct FoundStep {
  std::string number;
  size_t first = 0, end = 0;
  TimeSpan span;
};

// The computations and messages of one step of a stage, with their names.
class NamedStep {
 public:
  NamedStep(int stage, int stages) : stage_(stage), stages_(stages) {}

  // Walks what the step holds; returns its fault, or "".
  std::string Walk(const std::vector<Computation>& computations, const FoundStep& step,
                   const std::vector<HostRecord>& messages) {
    auto message =
        std::lower_bound(messages.begin(), messages.end(), step.span.start_ns,
                         [](const HostRecord& m, int64_t ns) { return m.start_ns < ns; });
    for (size_t i = step.first; i <= step.end; ++i) {
      const bool is_last = i == step.end;
      const int64_t until_ns = is_last ? step.span.end_ns : computations[i].start_ns;
      std::optional<TimeSpan> sent, received;
      std::vector<RecordKind> order;
      for (; message != messages.end() && message->start_ns < until_ns; ++message) {
        std::optional<TimeSpan>& of = message->kind == RecordKind::kSend ? sent : received;
        if (!of) order.push_back(message->kind);
        of = of ? TimeSpan{of->start_ns, message->end_ns} : TimeSpan(*message);
      }
      const std::string fault = Expect(is_last ? nullptr : &computations[i], sent, received);
      if (!fault.empty()) return fault;
      for (const RecordKind kind : order) {
        if (kind == RecordKind::kSend) Add("SEND_", last_is_backward_, Made() - 1, *sent);
        if (kind == RecordKind::kRecv)
          Add("RECV_", computations[i].is_backward, Next(computations[i]), *received);
      }
      if (is_last) break;
      Add("", computations[i].is_backward, Next(computations[i]), computations[i]);
      waits_from_ns_.back() = received ? received->end_ns : computations[i].start_ns;
      ++(computations[i].is_backward ? backwards_ : forwards_);
      last_is_backward_ = computations[i].is_backward;
    }
    return forwards_ == backwards_
               ? ""
               : absl::StrCat(forwards_, " forwards and ", backwards_, " backwards are found");
  }

  // A message's range lasts until the next begins: NCCL's launches for a group of messages come
  // behind the last of them.
  void MoveTo(RankTrace* trace) {
    for (size_t i = 0; i < actions_.size(); ++i) {
      const bool is_message = actions_[i].name.find('_') != std::string::npos;
      if (is_message && i + 1 < actions_.size()) {
        actions_[i].end_ns = std::max(actions_[i].end_ns, actions_[i + 1].start_ns);
      }
      trace->actions.push_back(std::move(actions_[i]));
      trace->waits_from_ns.push_back(waits_from_ns_[i]);
    }
  }

 private:
  int Next(const Computation& of) const { return of.is_backward ? backwards_ : forwards_; }
  int Made() const { return last_is_backward_ ? backwards_ : forwards_; }

  void Add(const char* what, bool is_backward, int microbatch, const TimeSpan& span) {
    actions_.push_back({span, absl::StrCat(stage_, what, is_backward ? "B" : "F", microbatch)});
    waits_from_ns_.push_back(span.start_ns);
  }

  // The fault of the messages between two computations, of which the later is `next`.
  std::string Expect(const Computation* next, const std::optional<TimeSpan>& sent,
                     const std::optional<TimeSpan>& received) const {
    const auto name = [&](bool is_backward, int microbatch) {
      return absl::StrCat(stage_, is_backward ? "B" : "F", microbatch);
    };
    const bool has_last = forwards_ + backwards_ > 0;
    const bool sends = has_last && (last_is_backward_ ? stage_ > 0 : stage_ + 1 < stages_);
    const bool receives =
        next != nullptr && (next->is_backward ? stage_ + 1 < stages_ : stage_ > 0);
    const std::string last = has_last ? absl::StrCat("behind ", name(last_is_backward_, Made() - 1))
                                      : "before the first forward";
    if (sent.has_value() != sends) {
      return absl::StrCat(sends ? "no c10d::send is found " : "a c10d::send is found ", last);
    }
    if (received.has_value() == receives) return "";
    if (next == nullptr) return absl::StrCat("a c10d::recv_ is found ", last);
    return absl::StrCat(
        receives ? "no c10d::recv_ is found before " : "a c10d::recv_ is found before ",
        name(next->is_backward, Next(*next)));
  }

  const int stage_, stages_;
  int forwards_ = 0, backwards_ = 0;
  bool last_is_backward_ = false;
  std::vector<NamedSpan> actions_;
  std::vector<int64_t> waits_from_ns_;
};

absl::Status NoActions(const RankTrace& trace, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(trace.file,
                   ": holds no range PP:…, which torch writes for schedules of "
                   "_PipelineScheduleRuntime (all of several stages a rank, and those loaded from "
                   "a .csv); and ",
                   why, kAdvice));
}

absl::StatusOr<std::vector<Computation>> ComputationsOf(const RankTrace& trace) {
  std::vector<Computation> found = CallsOf(trace.records);
  if (found.empty()) found = NumberedNodes(trace.records).Computations();
  const auto is_backward = [](const Computation& one) { return one.is_backward; };
  if (std::none_of(found.begin(), found.end(), is_backward)) {
    return NoActions(trace, "no backward is recorded");
  }
  if (std::all_of(found.begin(), found.end(), is_backward)) {
    return NoActions(trace, "no forward of its backwards is recorded");
  }
  return found;
}

// The profiler's steps.
std::vector<FoundStep> ProfiledSteps(const RankTrace& trace,
                                     const std::vector<Computation>& computations) {
  std::vector<FoundStep> steps;
  size_t at = 0;
  for (const NamedSpan& counted : trace.steps) {
    while (at < computations.size() && computations[at].start_ns < counted.start_ns) ++at;
    FoundStep step{counted.name, at, at, counted};
    for (; at < computations.size() && computations[at].start_ns < counted.end_ns; ++at) {
      step.end = at + 1;
    }
    if (step.first < step.end) steps.push_back(std::move(step));
  }
  return steps;
}

// Numbers of computations at which the steps of the first stage end: where every forward has had
// its backward.
std::vector<size_t> EndsOfSteps(const std::vector<Computation>& first_stage) {
  std::vector<size_t> ends;
  int alive = 0;
  for (size_t i = 0; i < first_stage.size(); ++i) {
    alive += first_stage[i].is_backward ? -1 : 1;
    if (alive == 0) ends.push_back(i + 1);
  }
  return ends;
}

// Steps of as many computations. Sends between two steps belong to the former, and what follows a
// receive to the latter.
std::vector<FoundStep> CutSteps(const std::vector<Computation>& computations,
                                const std::vector<HostRecord>& messages,
                                const std::vector<size_t>& ends) {
  std::vector<FoundStep> steps;
  FoundStep step{.span = {std::numeric_limits<int64_t>::min(), 0}};
  for (const size_t end : ends) {
    if (end > computations.size()) break;
    step.number = absl::StrCat(steps.size());
    step.end = end;
    step.span.end_ns = end < computations.size() ? computations[end].start_ns
                                                 : std::numeric_limits<int64_t>::max();
    const int64_t from_ns = computations[end - 1].start_ns;
    for (const HostRecord& message : messages) {
      if (message.kind != RecordKind::kRecv || message.start_ns < from_ns) continue;
      step.span.end_ns = std::min(step.span.end_ns, message.start_ns);
      break;
    }
    steps.push_back(step);
    step.first = end;
    step.span.start_ns = step.span.end_ns;
  }
  return steps;
}

}  // namespace

absl::Status FindActions(std::vector<RankTrace>* traces) {
  const auto is_named = [](const RankTrace& trace) { return !trace.actions.empty(); };
  const auto named = std::find_if(traces->begin(), traces->end(), is_named);
  const auto unnamed = std::find_if_not(traces->begin(), traces->end(), is_named);
  if (unnamed == traces->end()) return absl::OkStatus();
  if (named != traces->end()) {
    return absl::InvalidArgumentError(absl::StrCat(unnamed->file, ": holds no range PP:…, and ",
                                                   named->file, " does; profile all ranks alike"));
  }
  std::vector<size_t> ends;
  const int stages = static_cast<int>(traces->size());
  for (int stage = 0; stage < stages; ++stage) {
    RankTrace& trace = (*traces)[stage];
    SL_ASSIGN_OR_RETURN(const std::vector<Computation> computations, ComputationsOf(trace));
    if (stage == 0) ends = EndsOfSteps(computations);
    std::vector<HostRecord> messages;
    std::copy_if(trace.records.begin(), trace.records.end(), std::back_inserter(messages),
                 IsMessageRecord);
    std::string fault = "no step is whole";
    const std::vector<FoundStep> steps = trace.steps.empty()
                                             ? CutSteps(computations, messages, ends)
                                             : ProfiledSteps(trace, computations);
    for (const FoundStep& step : steps) {
      NamedStep walked(stage, stages);
      const std::string wrong = walked.Walk(computations, step, messages);
      if (wrong.empty()) walked.MoveTo(&trace);
      if (!wrong.empty()) fault = absl::StrCat("in step ", step.number, " ", wrong);
    }
    if (trace.actions.empty()) return NoActions(trace, fault);
    trace.records = {};
  }
  return absl::OkStatus();
}

}  // namespace stringline
