// Three rules that need no run of the plan. `complete` counts the work on every microbatch;
// `dataflow` goes down each list and looks for a producer of every need above its consumer;
// `matching` lays the sends and the receives of a channel side by side.
#include "schedlang/check/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/effects.h"

namespace stringline {

Note NoteAt(const Plan& plan, const Action& action, std::string text) {
  return {SpanOf(plan, action), std::move(text), WhereOf(plan, action)};
}

namespace {

// Counts of each kind of work on a stage's microbatch.
struct Tally {
  uint8_t forward = 0, backward = 0, input = 0, weight = 0, again = 0;
  void Count(ActionKind kind) {
    uint8_t* const counts[] = {&forward, &backward, &input, &weight, &again};
    uint8_t& count = *counts[static_cast<int>(kind)];
    count = static_cast<uint8_t>(std::min(count + 1, 2));
  }
  bool Whole(bool remakes, bool forward_only) const {
    if (forward_only) return forward == 1 && backward + input + weight + again == 0;
    return forward == 1 && again == (remakes ? 1 : 0) &&
           ((backward == 1 && input == 0 && weight == 0) ||
            (backward == 0 && input == 1 && weight == 1));
  }
};

// The fault in a stage's work on a microbatch, in words.
std::string Fault(const Tally& t) {
  if (t.forward == 0 && t.backward + t.input + t.weight == 0) return "is never done";
  if (t.forward == 0) return "has no forward";
  if (t.forward > 1) return "has its forward done twice";
  if (t.backward > 1 || t.input > 1) return "has its input gradient done twice";
  if (t.backward == 1 && t.input == 1) return "has both a whole backward and an input gradient";
  if (t.backward == 1 && t.weight > 0) return "has its weight gradient done twice";
  if (t.weight > 1) return "has its weight gradient done twice";
  if (t.backward + t.input == 0) return "has no backward";
  if (t.again > 1) return "has its R done twice";
  if (t.again == 0 && t.backward + t.weight == 1)
    return "has no R, and other microbatches have one";
  return "has an input gradient, but never its weight gradient";
}

// The action that shows the fault of a microbatch, and the earlier action that it repeats.
struct Shown {
  const Action* at = nullptr;     // null: no action is on the microbatch
  const Action* first = nullptr;  // null: no action is repeated
};

Shown ShownOf(const Plan& plan, StageId stage, int microbatch) {
  Shown shown;
  std::vector<const Action*> done;
  const RankId rank = plan.stage(stage).rank;
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1]; ++i) {
    const Action& action = plan.actions[i];
    if (!ComputesMicrobatch(action.kind) || action.stage != stage) continue;
    if (action.microbatch.value != microbatch) continue;
    shown.at = &action;
    // B and I compute the input gradient, B and W the weight gradient.
    const auto before = std::find_if(done.begin(), done.end(), [&](const Action* other) {
      const auto is = [](const Action& a, ActionKind kind) { return a.kind == kind; };
      const auto gives_gradient = [](const Action& a) {
        return (EffectsOf(a.kind).gives & (kInGrad | kWeightGrad)) != 0;
      };
      return other->kind == action.kind ||
             (is(action, ActionKind::kBackward) && gives_gradient(*other)) ||
             (is(*other, ActionKind::kBackward) && gives_gradient(action));
    });
    if (before != done.end()) {
      shown.first = *before;
      return shown;
    }
    done.push_back(&action);
  }
  return shown;
}

// The first action of the rank with which all values are there that plan.actions[index] lacks;
// plan.actions.size() for none.
uint32_t FindGiver(const Plan& plan, uint32_t index, Values lacks) {
  const Action& action = plan.actions[index];
  const RankId rank = RankOf(plan, action);
  LiveValues alone(plan);
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1]; ++i) {
    const Action& other = plan.actions[i];
    if (other.microbatch.value / plan.slices != action.microbatch.value / plan.slices) continue;
    if (i == index) continue;  // it would use up those of several inputs that are there
    const Values before = alone.Missing(action) & lacks;
    alone.Perform(other);
    const Values after = alone.Missing(action) & lacks;
    if (before == lacks && after != lacks) return i;
  }
  return static_cast<uint32_t>(plan.actions.size());
}

// True if the actions from `begin` to `end` are parts of a group.
bool ShareTheRank(const Plan& plan, uint32_t begin, uint32_t end) {
  const auto rest = absl::MakeConstSpan(plan.actions).subspan(begin + 1, end - begin);
  return std::all_of(rest.begin(), rest.end(), [](const Action& a) { return a.joined; });
}

// The place of the producer of the values that plan.actions[index] lacks, relative to it.
Note ExplainLack(const Plan& plan, uint32_t index, Values lacks) {
  const Action& action = plan.actions[index];
  const uint32_t giver = FindGiver(plan, index, lacks);
  if (giver == plan.actions.size()) {
    return {.text = absl::StrCat("nothing on rank ", RankOf(plan, action).value, " gives it"),
            .has_place = false};
  }
  const Action& other = plan.actions[giver];
  if (ShareTheRank(plan, std::min(giver, index), std::max(giver, index))) {
    return NoteAt(plan, other,
                  absl::StrCat(Print(plan, other),
                               " would give it, but shares the rank with it: its "
                               "results exist only when both are done"));
  }
  if (giver < index) {
    return NoteAt(plan, other,
                  absl::StrCat(Print(plan, other), " gave it, and another action used it up"));
  }
  // Sends and receives in between are not the user's to count.
  const auto between = absl::MakeConstSpan(plan.actions).subspan(index + 1, giver - index - 1);
  const auto later = 1 + std::count_if(between.begin(), between.end(),
                                       [](const Action& a) { return IsCompute(a.kind); });
  return NoteAt(plan, other,
                absl::StrCat(Print(plan, other), " would give it, but comes ", later,
                             later == 1 ? " action" : " actions", " later on the same rank"));
}

void FindEarlyUseOf(const Plan& plan, uint32_t index, Values lacks, const LiveValues& live,
                    Diagnostics* diagnostics) {
  const Action& action = plan.actions[index];
  const Span span = SpanOf(plan, action);
  const bool known = diagnostics->Has(Code::kDataflow, span);
  const RankId rank = RankOf(plan, action);
  Diagnostic& finding = diagnostics->Add(
      Code::kDataflow, span,
      absl::StrCat("rank ", rank.value, " waits forever at ", Print(plan, action), " for the ",
                   Describe(plan, action.stage, action.microbatch, lacks, &live)));
  if (known) return;
  finding.where = WhereOf(plan, action);
  finding.notes.push_back(ExplainLack(plan, index, lacks));
}

using MessageRow = std::vector<const Action*>;

// The two orders side by side, from a few messages before the first difference on.
Note SideBySide(const Plan& plan, const MessageRow& sends, const MessageRow& recvs, size_t first) {
  constexpr size_t kBefore = 2, kAfter = 3;
  const auto name = [&plan](const MessageRow& row, size_t k) {
    return k < row.size() ? Print(plan, *row[k]) : std::string("-");
  };
  const size_t begin = first - std::min(first, kBefore);
  const size_t end = std::min(std::max(sends.size(), recvs.size()), first + kAfter);
  size_t width = 4;
  for (size_t k = begin; k < end; ++k) width = std::max(width, name(sends, k).size());
  std::string text = absl::StrFormat("both orders:\n    message  %-*s  received", width, "sent");
  for (size_t k = begin; k < end; ++k) {
    absl::StrAppendFormat(&text, "\n    %7d  %-*s  %s%s", k, width, name(sends, k), name(recvs, k),
                          k == first ? "  <- differ" : "");
  }
  return {.text = text, .has_place = false};
}

// Checks a channel up to its first difference; later messages are shifted and are not examined.
void FindMismatchOf(const Plan& plan, const Channel& channel, const MessageRow& sends,
                    const MessageRow& recvs, Diagnostics* diagnostics) {
  for (size_t k = 0; k < std::max(sends.size(), recvs.size()); ++k) {
    const Action* send = k < sends.size() ? sends[k] : nullptr;
    const Action* recv = k < recvs.size() ? recvs[k] : nullptr;
    if (send && recv && Match(plan, *send, *recv)) continue;
    const Action& at = send ? *send : *recv;
    std::string text = absl::StrCat("message ", k, " from rank ", channel.from.value, " to rank ",
                                    channel.to.value, ": ");
    absl::StrAppend(&text, send ? Print(plan, *send) : "nothing is sent", " meets ",
                    recv ? Print(plan, *recv) : "no receive");
    Diagnostic& finding = diagnostics->Add(Code::kMatching, SpanOf(plan, at), text);
    finding.where = WhereOf(plan, at);
    if (send && recv) finding.notes.push_back(NoteAt(plan, *recv, "the receive"));
    finding.notes.push_back(SideBySide(plan, sends, recvs, k));
    return;
  }
}

}  // namespace

void FindIncomplete(const Plan& plan, const CheckOptions&, Diagnostics* diagnostics) {
  FindOwnRepeated(plan, diagnostics);
  const size_t m_count = static_cast<size_t>(plan.microbatches);
  std::vector<Tally> tallies(plan.stages.size() * m_count);
  std::vector<const Action*> any(plan.stages.size(), nullptr);  // an action of the stage, its last
  for (const Action& action : plan.actions) {
    if (!ComputesMicrobatch(action.kind)) continue;
    tallies[action.stage.value * m_count + action.microbatch.value].Count(action.kind);
    any[action.stage.value] = &action;
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const int of_pipe = plan.microbatches_of(StageId(static_cast<int32_t>(s)));
    const auto row = absl::MakeConstSpan(tallies).subspan(s * m_count, of_pipe);
    const bool remakes = plan.stages[s].remakes;
    const auto is_fault = [&](const Tally& t) {
      const MicrobatchId m(static_cast<int32_t>(&t - row.data()));
      return !t.Whole(remakes, plan.forward_only) &&
             !plan.LeavesOut(StageId(static_cast<int32_t>(s)), m);
    };
    const auto fault = std::find_if(row.begin(), row.end(), is_fault);
    if (fault == row.end()) continue;
    const auto faults = std::count_if(fault, row.end(), is_fault);
    const Shown shown =
        ShownOf(plan, StageId(static_cast<int32_t>(s)), static_cast<int>(fault - row.begin()));
    const Action* const at = shown.first != nullptr ? shown.at : any[s];
    Diagnostic& finding = diagnostics->Add(
        Code::kIncomplete, at != nullptr ? SpanOf(plan, *at) : plan.header,
        absl::StrCat(
            "stage ", PrintStage(plan.pipes, StageId(static_cast<int32_t>(s))), " on rank ",
            plan.stages[s].rank.value, ": microbatch ",
            PrintMicrobatch(plan.slices, MicrobatchId(static_cast<int32_t>(fault - row.begin()))),
            " ", Fault(*fault)),
        static_cast<int>(faults));
    finding.where = PrintParameters(plan);
    if (shown.first != nullptr) {
      finding.notes.push_back(NoteAt(plan, *shown.first, "it was done here before"));
    }
  }
}

void FindEarlyUse(const Plan& plan, const CheckOptions&, Diagnostics* diagnostics) {
  const size_t before = diagnostics->findings().size();
  LiveValues issued(plan);
  for (uint32_t i = 0; i < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, i);
    for (uint32_t k = 0; k < group.size(); ++k) {
      const Values lacks = issued.Missing(group, k);
      if (lacks != 0) FindEarlyUseOf(plan, i + k, lacks, issued, diagnostics);
    }
    for (const Action& part : group) issued.Perform(part);
    i += static_cast<uint32_t>(group.size());
  }
  if (diagnostics->findings().size() == before) FindOwnLeftOver(plan, diagnostics);
}

void FindListFault(const Plan& plan, Diagnostics* diagnostics) {
  FindUpdateFault(plan, {}, diagnostics);
  FindOwnRepeated(plan, diagnostics);
  FindOwnLeftOver(plan, diagnostics);
}

void FindMismatch(const Plan& plan, const CheckOptions&, Diagnostics* diagnostics) {
  const Channels channels = ChannelsOf(plan);
  std::vector<std::vector<const Action*>> sends(channels.all.size()), recvs(channels.all.size());
  for (const Action& action : plan.actions) {
    if (!IsMessage(action.kind)) continue;
    const int channel = channels.Of(plan, action);
    if (channel < 0) {
      diagnostics
          ->Add(Code::kMatching, SpanOf(plan, action),
                absl::StrCat(Print(plan, action), " has no other rank to talk to"))
          .where = WhereOf(plan, action);
      continue;
    }
    (IsSend(action.kind) ? sends : recvs)[channel].push_back(&action);
  }
  for (size_t c = 0; c < channels.all.size(); ++c) {
    FindMismatchOf(plan, channels.all[c], sends[c], recvs[c], diagnostics);
  }
}

}  // namespace stringline
