#include "schedlang/plan.h"

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

struct KindRow {
  const char* print;
  const char* meaning;
};

constexpr KindRow kKinds[] = {
#define X(kind, print, meaning) {print, meaning},
#include "schedlang/actions.def"
#undef X
};
static_assert(sizeof(kKinds) / sizeof(kKinds[0]) == kActionKinds);

void AppendIterations(const Plan& plan, int32_t iteration, std::string* out) {
  if (iteration < 0) return;
  const Iteration& pass = plan.iterations[iteration];
  AppendIterations(plan, pass.outer, out);
  absl::StrAppend(out, out->empty() ? "iteration " : ".", pass.i);
}

}  // namespace

const char* PrintedKind(ActionKind kind) { return kKinds[static_cast<int>(kind)].print; }
const char* MeaningOfKind(ActionKind kind) { return kKinds[static_cast<int>(kind)].meaning; }

StageId PeerStage(const Plan& plan, const Action& action) {
  const Stage& stage = plan.stage(action.stage);
  const bool forward = action.kind == ActionKind::kSendForward;
  const bool from_behind = action.kind == ActionKind::kRecvBackward;
  return forward || from_behind ? stage.next : stage.previous;
}

std::string Print(const Action& action) {
  return absl::StrCat(action.stage.value, PrintedKind(action.kind), action.microbatch.value);
}

absl::Span<const Action> GroupAt(absl::Span<const Action> actions, size_t begin) {
  size_t end = begin + 1;
  while (end < actions.size() && actions[end].joined) ++end;
  return actions.subspan(begin, end - begin);
}

std::string PrintGroup(absl::Span<const Action> actions, size_t index) {
  std::string out;
  for (const Action& part : GroupAt(actions, index)) {
    absl::StrAppend(&out, out.empty() ? "" : "&", Print(part));
  }
  return out;
}

std::string PrintParameters(const Plan& plan) {
  std::string out;
  for (const Parameter& p : plan.parameters) {
    absl::StrAppend(&out, out.empty() ? "" : " ", p.name, "=", p.value);
  }
  return out;
}

std::string Print(const Plan& plan) {
  std::string out = absl::StrCat("plan ", plan.schedule, " ", PrintParameters(plan));
  absl::StrAppend(&out, plan.lowered ? " lowered\n" : "\n", "stages");
  for (const Stage& stage : plan.stages) absl::StrAppend(&out, " ", stage.rank.value);
  absl::StrAppend(&out, "\n");
  for (int r = 0; r < plan.ranks(); ++r) {
    absl::StrAppend(&out, "rank ", r, ":");
    for (const Action& action : plan.of(RankId(r))) {
      absl::StrAppend(&out, action.joined ? "&" : " ", Print(action));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

std::string WhereOf(const Plan& plan, const Action& action) {
  std::string out;
  AppendIterations(plan, action.iteration, &out);
  return absl::StrCat(out, out.empty() ? "" : ", ", PrintParameters(plan));
}

Span SpanOf(const Plan& plan, const Action& action) {
  return action.place < plan.places.size() ? plan.places[action.place] : plan.header;
}

}  // namespace stringline
