// Each rule is a walk over a list with a little state: unsharded stages, sends under way. Its
// finding describes torch's behaviour. The plan has passed Check, so Check's rules are not repeated
// here.
#include "schedlang/torch/torch_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

class FaultFinder {
 public:
  FaultFinder(const TorchFile& file, Diagnostics* diagnostics)
      : file_(file),
        plan_(file.plan),
        diagnostics_(diagnostics),
        forward_(plan_.stages.size() * static_cast<size_t>(plan_.microbatches), 0),
        backward_(forward_.size(), 0) {}

  void Find() {
    FindOldLetters();
    FindLossOrder(plan_, diagnostics_);
    if (!plan_.lowered) return;
    const bool unshards = Holds(ActionKind::kUnshard);
    if (!unshards) {
      Complain(plan_.actions[0], "no stage is ever unsharded; with FSDP torch stops here");
    }
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (unshards) FindSharding(plan_.of(RankId(r)));
    }
    FindReductions();
    if (!file_.waits.empty()) FindWaits();
  }

 private:
  Diagnostic& ComplainAt(Span span, std::string text) {
    Diagnostic& finding = diagnostics_->Add(Code::kTorchRuntime, span, std::move(text));
    finding.where = PrintParameters(plan_);
    return finding;
  }
  Diagnostic& Complain(const Action& action, absl::string_view text) {
    return ComplainAt(SpanOf(plan_, action), absl::StrCat(Print(plan_, action), ": ", text));
  }
  Note NoteAt(const Action& action, std::string text) const {
    return {SpanOf(plan_, action), std::move(text), ""};
  }

  bool Holds(ActionKind kind) const {
    return std::any_of(plan_.actions.begin(), plan_.actions.end(),
                       [kind](const Action& a) { return a.kind == kind; });
  }

  void FindOldLetters() {
    if (!file_.legacy) return;
    const auto first =
        std::find_if(plan_.actions.begin(), plan_.actions.end(), [](const Action& a) {
          return a.kind == ActionKind::kInputGradient || a.kind == ActionKind::kBackward;
        });
    if (first == plan_.actions.end()) return;
    const bool whole = first->kind == ActionKind::kBackward;
    ComplainAt(SpanOf(plan_, *first),
               absl::StrCat(whole ? "a whole backward" : "an input gradient",
                            " in the letters of torch before 2.6, which torch takes for something "
                            "else now; it writes ",
                            Print(plan_, *first), " today"));
  }

  // Checks a rank: its stages are unsharded, and used before they are resharded. (The rule
  // `collectives` has checked the computations in between.)
  void FindSharding(absl::Span<const Action> actions) {
    struct Gathered {
      bool ever = false;
      bool used = false;
      bool reported = false;
    };
    std::vector<Gathered> stages(plan_.stages.size());
    for (const Action& action : actions) {
      Gathered& stage = stages[action.stage.value];
      if (IsCompute(action.kind)) {
        stage.used = true;
        if (stage.ever || std::exchange(stage.reported, true)) continue;
        Complain(action, absl::StrCat("stage ", action.stage.value,
                                      " was never unsharded; with FSDP torch stops here"));
      } else if (action.kind == ActionKind::kUnshard) {
        stage = {.ever = true};
      } else if (action.kind == ActionKind::kReshard && !stage.used) {
        Complain(action, "nothing used the stage since its UNSHARD; with FSDP torch stops here");
      }
    }
  }

  // Checks that reductions exist; the rule `collectives` has checked those that do.
  void FindReductions() {
    if (Holds(ActionKind::kReduceGrad)) return;
    std::vector<const Action*> last(plan_.stages.size(), nullptr);  // B or W
    for (const Action& action : plan_.actions) {
      const bool gives =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient;
      if (gives) last[action.stage.value] = &action;
    }
    for (size_t s = 0; s < last.size(); ++s) {
      Complain(*last[s], absl::StrCat("no REDUCE_GRAD behind the last backward of stage ", s,
                                      "; its gradients stay ", plan_.microbatches,
                                      " times too large, and with FSDP no rank reduces them"));
    }
  }

  // Checks that every send and reduction has a single wait, behind it.
  void FindWaits() {
    for (int r = 0; r < plan_.ranks(); ++r) FindWaits(RankId(r));
  }

  void FindWaits(RankId rank) {
    reducing_ = nullptr;
    const uint32_t end = plan_.first[rank.value + 1];
    for (uint32_t i = plan_.first[rank.value]; i <= end; ++i) {
      for (; next_wait_ < file_.waits.size() && file_.waits[next_wait_].rank == rank &&
             file_.waits[next_wait_].before <= i;
           ++next_wait_) {
        Close(file_.waits[next_wait_]);
      }
      if (i < end) Open(plan_.actions[i]);
    }
    for (const Action& action : plan_.of(rank)) {
      const bool left = IsSend(action.kind) ? OpenSend(action.kind, action) : reducing_ == &action;
      if (left) Complain(action, "nothing waits for it; torch refuses the file");
    }
  }

  void Open(const Action& action) {
    if (IsSend(action.kind)) OpenSend(action.kind, action) = 1;
    if (action.kind != ActionKind::kReduceGrad) return;
    if (reducing_ != nullptr) {
      Complain(action, "begins before another one is waited for; torch refuses the file")
          .notes.push_back(NoteAt(*reducing_, "that one"));
    }
    reducing_ = &action;
  }

  void Close(const MessageWait& wait) {
    if (wait.of == ActionKind::kReduceGrad) {
      if (reducing_ != nullptr && reducing_->stage == wait.stage) {
        reducing_ = nullptr;
        return;
      }
    } else if (char& open = OpenSend(wait.of, wait)) {
      open = 0;
      return;
    }
    ComplainAt(wait.span, absl::StrCat("a wait, but no ",
                                       PrintAction({}, {}, 1, wait.of, wait.stage, wait.microbatch),
                                       " is under way; torch refuses the file"));
  }

  // True while the send of this stage and microbatch is under way.
  template <typename Named>
  char& OpenSend(ActionKind kind, const Named& named) {
    std::vector<char>& open = kind == ActionKind::kSendForward ? forward_ : backward_;
    return open[static_cast<size_t>(named.stage.value) * plan_.microbatches +
                named.microbatch.value];
  }

  const TorchFile& file_;
  const Plan& plan_;
  Diagnostics* diagnostics_;
  size_t next_wait_ = 0;
  const Action* reducing_ = nullptr;      // the reduction without a wait so far
  std::vector<char> forward_, backward_;  // by stage and microbatch
};

// "0SEND_F1 waits for 1RECV_F1": a link of a cycle and the next.
std::string ReasonText(const Plan& plan, const Blocked& link, const Blocked& next) {
  const std::string what = PrintGroup(plan, plan.actions, link.action);
  const std::string whom = PrintGroup(plan, plan.actions, next.action);
  const int rank = plan.stage(plan.actions[link.action].stage).rank.value;
  switch (link.why) {
    case Blocked::Why::kOtherEnd:
      return absl::StrCat(what, " waits for its other end, ", whom);
    case Blocked::Why::kQueue:
      return absl::StrCat(what, " is behind ", whom, " in a queue of rank ", rank);
    case Blocked::Why::kComputation:
      return absl::StrCat(what, " comes after ", whom, ", and rank ", rank, " is still there");
    case Blocked::Why::kWait:
      return absl::StrCat(what, " comes after a wait for ", whom);
    case Blocked::Why::kNeeds:
      break;
  }
  return absl::StrCat(what, " needs ", whom);
}

const char* WhatShares(CommLayout layout) {
  switch (layout) {
    case CommLayout::kShared:
      return "all messages share a communicator";
    case CommLayout::kUpDown:
      return "messages up and messages down share a communicator each";
    case CommLayout::kPair:
      return "the messages of two ranks share a communicator";
    case CommLayout::kEdge:
      break;
  }
  return "messages of one direction share a communicator";
}

}  // namespace

void AddCycle(const Plan& plan, const std::vector<Blocked>& cycle, CommLayout layout,
              Diagnostics* diagnostics) {
  if (cycle.empty()) return;
  const auto text = [&](size_t i) {
    return ReasonText(plan, cycle[i], cycle[(i + 1) % cycle.size()]);
  };
  const auto span = [&](size_t i) { return SpanOf(plan, plan.actions[cycle[i].action]); };
  Diagnostic& finding =
      diagnostics->Add(Code::kTorchRuntime, span(0),
                       absl::StrCat("never ends where ", WhatShares(layout), ": ", text(0)));
  finding.where = PrintParameters(plan);
  for (size_t i = 1; i < cycle.size(); ++i) {
    const bool closes = i + 1 == cycle.size();
    finding.notes.push_back({span(i), text(i) + (closes ? ": this closes the cycle" : ""), ""});
  }
}

void FindLossOrder(const Plan& plan, Diagnostics* diagnostics) {
  if (plan.stages.empty()) return;
  const StageId last(static_cast<int>(plan.stages.size()) - 1);
  int losses = 0;
  for (const Action& action : plan.of(plan.stage(last).rank)) {
    if (action.kind != ActionKind::kForward || action.stage != last) continue;
    if (action.microbatch.value != losses) {
      Diagnostic& finding =
          diagnostics->Add(Code::kTorchRuntime, SpanOf(plan, action),
                           absl::StrCat(Print(plan, action),
                                        ": torch keeps losses in the order of the last stage's "
                                        "forwards, and takes this one for that of microbatch ",
                                        losses));
      finding.where = PrintParameters(plan);
      return;
    }
    ++losses;
  }
}

void FindTorchFaults(const TorchFile& file, Diagnostics* diagnostics) {
  FaultFinder(file, diagnostics).Find();
}

}  // namespace stringline
