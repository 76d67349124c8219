// The text form of a plan and its parts, line by line; reading it back is read_plan.cc's.
#include "schedlang/plan/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

struct KindRow {
  const char* print;
  const char* meaning;
};

constexpr KindRow kKinds[] = {
#define X(kind, print, meaning) {print, meaning},
#include "schedlang/plan/actions.def"
#undef X
};
static_assert(sizeof(kKinds) / sizeof(kKinds[0]) == kActionKinds);

void AppendIterations(const Plan& plan, int32_t iteration, std::string* out) {
  if (iteration < 0) return;
  const Iteration& pass = plan.iterations[iteration];
  AppendIterations(plan, pass.outer, out);
  absl::StrAppend(out, out->empty() ? "iteration " : ".", pass.i);
}

void AppendStages(const Plan& plan, std::string* out) {
  if (plan.pipes.empty()) absl::StrAppend(out, "stages");
  for (size_t s = 0, p = 0; s < plan.stages.size(); ++s) {
    if (p < plan.pipes.size() && static_cast<int>(s) == plan.pipes[p].first_stage.value) {
      const Pipe& pipe = plan.pipes[p++];
      absl::StrAppend(out, s == 0 ? "" : "\n", "pipe ", pipe.name,
                      " M=", pipe.microbatches / plan.steps / plan.slices);
      absl::StrAppend(out, " stages");
    }
    absl::StrAppend(out, " ", plan.stages[s].rank.value);
  }
  absl::StrAppend(out, "\n");
  const StageGraph& whole = plan.WholeGraph();
  if (!whole.is_chain()) absl::StrAppend(out, PrintEdges(whole.edges()));
  absl::StrAppend(out, Print(plan.skips));
}

void AppendLane(const char* name, const Overlap& overlap, const std::vector<Overlap::Part>& parts,
                std::string* out) {
  absl::StrAppend(out, " ", name);
  for (const Overlap::Part& part : parts) absl::StrAppend(out, " ", Print(overlap, part));
}

}  // namespace

std::string Print(const Overlap& overlap, const Overlap::Part& part) {
  const auto performers = std::count_if(overlap.kinds.begin(), overlap.kinds.end(),
                                        [&](ActionKind kind) { return Performs(kind, part.of); });
  if (performers == 1 || part.place < 0) {
    return absl::StrCat(PrintedKind(part.of), ".", part.name);
  }
  const bool of_whole = overlap.kinds[part.place] != part.of;
  return absl::StrCat(part.place + 1, of_whole ? ".W." : ".", part.name);
}

std::string Print(const Overlap& overlap) {
  std::string out = "overlap ";
  for (size_t i = 0; i < overlap.kinds.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : "&", PrintedKind(overlap.kinds[i]));
  }
  if (overlap.by_default) return out;
  AppendLane("compute", overlap, overlap.compute, &out);
  AppendLane("network", overlap, overlap.network, &out);
  return out;
}

std::string Print(const Split& split) {
  switch (split.kind) {
    case Split::Kind::kEven:
      return "split even";
    case Split::Kind::kBalanced:
      return "split balanced";
    case Split::Kind::kLayers:
      return absl::StrCat("split layers ", absl::StrJoin(split.layers, " "));
    default:
      break;
  }
  std::string out = "split layout";
  for (const std::string& stage : split.layout) {
    absl::StrAppend(&out, " ", stage.empty() ? "-" : stage);
  }
  return out;
}

const char* PrintedKind(ActionKind kind) { return kKinds[static_cast<int>(kind)].print; }
const char* MeaningOfKind(ActionKind kind) { return kKinds[static_cast<int>(kind)].meaning; }

const Edge* EdgeByName(const Plan& plan, const Action& message) {
  const StageGraph& graph = plan.GraphOf(message.microbatch);
  const StageId other(message.other);
  if (!other.valid()) return nullptr;
  return IsAtFrom(message.kind) ? graph.Find(message.stage, other)
                                : graph.Find(other, message.stage);
}

std::string Print(const std::vector<Skip>& skips) {
  if (skips.empty()) return "";
  std::string out = "skip";
  for (const Skip& skip : skips) absl::StrAppend(&out, " ", skip.stage.value, "@", skip.microbatch);
  return absl::StrCat(out, "\n");
}

bool Plan::IsLeftOut(StageId id, MicrobatchId microbatch) const {
  const Skip skip{id, static_cast<int32_t>(InStep(microbatch))};
  return std::binary_search(skips.begin(), skips.end(), skip);
}

int Plan::MicrobatchesOfStep(StageId id) const {
  const auto first = std::lower_bound(skips.begin(), skips.end(), Skip{id, 0});
  const auto last = std::lower_bound(first, skips.end(), Skip{StageId(id.value + 1), 0});
  return microbatches_of(id) / steps - static_cast<int>(last - first) * slices;
}

namespace {

using Ends = std::pair<StageId, StageId>;

// The edges of a microbatch that leaves stages out, or the reason why it cannot.
std::string FindWay(const StageGraph& whole, const std::vector<bool>& left_out,
                    std::set<Ends>* way) {
  // By stage, what stands for its output: of a stage that is left out that of the stage before.
  std::vector<StageId> giver(left_out.size());
  for (const StageId stage : whole.InOrder()) {
    const auto s = static_cast<size_t>(stage.value);
    const auto in = whole.In(stage);
    giver[s] = stage;
    if (left_out[s] && (in.size() != 1 || whole.Out(stage).empty())) {
      return absl::StrCat("stage ", stage.value,
                          in.empty()                 ? " reads the data"
                          : whole.Out(stage).empty() ? " has a loss"
                                                     : " has several inputs",
                          in.size() > 1 ? ", and which of them would go on is not said"
                                        : ", so no microbatch leaves it out");
    }
    if (left_out[s]) giver[s] = giver[static_cast<size_t>(in[0].from.value)];
    for (const Edge& edge : in) {
      if (left_out[s]) break;
      const StageId from = giver[static_cast<size_t>(edge.from.value)];
      if (way->emplace(from, stage).second) continue;
      return absl::StrCat("stage ", stage.value, " would get the output of stage ", from.value,
                          " twice");
    }
  }
  return "";
}

}  // namespace

std::string Plan::SetSkips(std::vector<Skip> left_out) {
  if (stages.size() > static_cast<size_t>(kMostStagesOfEdges)) {
    return absl::StrCat("there are ", stages.size(),
                        " stages, and stages among which microbatches ",
                        "leave some out are at most ", kMostStagesOfEdges);
  }
  const StageGraph whole = WholeGraph();
  std::sort(left_out.begin(), left_out.end());
  skips = std::move(left_out);
  ways.clear();
  way_of.assign(static_cast<size_t>(microbatches_in_step()), 0);
  std::vector<std::vector<bool>> out_of(way_of.size() + 1);  // the first leaves out nothing
  for (std::vector<bool>& out : out_of) out.assign(stages.size(), false);
  for (const Skip& skip : skips) {
    out_of[static_cast<size_t>(skip.microbatch) + 1][static_cast<size_t>(skip.stage.value)] = true;
  }
  std::map<std::vector<bool>, int32_t> known;  // ways by what they leave out
  std::vector<std::set<Ends>> ends;
  for (size_t m = 0; m < out_of.size(); ++m) {
    const std::vector<bool>& out = out_of[m];
    const auto [way, is_new] = known.emplace(out, static_cast<int32_t>(ends.size()));
    if (m > 0) way_of[m - 1] = way->second;
    if (!is_new) continue;
    std::string reason = FindWay(whole, out, &ends.emplace_back());
    if (!reason.empty()) return reason;
  }
  std::set<Ends> all;
  for (const std::set<Ends>& way : ends) all.insert(way.begin(), way.end());
  std::vector<Edge> edges;
  for (const auto& [from, to] : all) edges.push_back({from, to});
  graph = StageGraph(static_cast<int>(stages.size()), std::move(edges));
  for (const std::set<Ends>& way : ends) {
    ways.push_back(graph.Only([&way](const Edge& edge) {
      return way.count({edge.from, edge.to}) > 0;
    }));
  }
  return "";
}

void Plan::SetChains() {
  std::vector<int32_t> pipes_of;
  for (const Stage& one : stages) pipes_of.push_back(one.pipe);
  graph = StageGraph::Chains(pipes_of);
}

std::string Print(const OrderCosts& costs) {
  std::string out = "costs";
  const auto append = [&out](absl::string_view key, const std::vector<int64_t>& values) {
    if (values.empty()) return;
    const std::string joined = absl::StrJoin(values, ",");
    absl::StrAppend(&out, " ", key, "=",
                    values.size() == 1 ? joined : absl::StrCat("[", joined, "]"));
  };
  for (size_t k = 0; k < costs.actions.size(); ++k) {
    append(PrintedKind(static_cast<ActionKind>(k)), costs.actions[k]);
  }
  if (!costs.microbatches.empty()) {
    absl::StrAppend(&out, " microbatch=[", absl::StrJoin(costs.microbatches, ","), "]");
  }
  append("F&B", costs.beside_backward.takes);
  append("F&B.saves", costs.beside_backward.saves);
  append("F&I", costs.beside_input.takes);
  append("F&I.saves", costs.beside_input.saves);
  return costs.p2p == 0 ? out : absl::StrCat(out, " p2p=", costs.p2p);
}

std::string Print(const Searched& searched) {
  return absl::StrCat("search ", searched.objective, "=", searched.value,
                      " bound=", searched.bound);
}

std::string PrintStage(absl::Span<const Pipe> pipes, StageId stage) {
  for (const Pipe& pipe : pipes) {
    const int index = stage.value - pipe.first_stage.value;
    if (index >= 0 && index < pipe.stages) return absl::StrCat(pipe.name, "[", index, "]");
  }
  return absl::StrCat(stage.value);
}

std::string PrintMicrobatch(int slices, MicrobatchId microbatch) {
  if (slices == 1) return absl::StrCat(microbatch.value);
  return absl::StrCat(microbatch.value / slices, ".", microbatch.value % slices);
}

std::string PrintActivations(int slices, int count) {
  return absl::StrFormat("%.4g", static_cast<double>(count) / slices);
}

std::string PrintAction(absl::Span<const Pipe> pipes, const OwnRows& rows, int slices,
                        ActionKind kind, StageId stage, MicrobatchId microbatch, int other) {
  std::string out = absl::StrCat(PrintStage(pipes, stage), PrintedKind(rows, kind));
  if (!microbatch.valid()) return out;
  absl::StrAppend(&out, PrintMicrobatch(IsOfMicrobatch(kind) ? slices : 1, microbatch));
  if (other >= 0 && IsMessage(kind)) absl::StrAppend(&out, ">", other);
  return out;
}

std::string Print(const Plan& plan, const Action& action) {
  return PrintAction(plan.pipes, plan.rows, plan.slices, action.kind, action.stage,
                     action.microbatch, action.other);
}

std::string PrintGroup(const Plan& plan, absl::Span<const Action> actions, size_t index) {
  std::string out;
  for (const Action& part : GroupAt(actions, index)) {
    absl::StrAppend(&out, out.empty() ? "" : "&", Print(plan, part));
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
  absl::StrAppend(&out, plan.lowered ? " lowered\n" : "\n");
  if (plan.steps > 1 || plan.versions > 1) {
    absl::StrAppend(&out, "steps ", plan.steps, " versions ", plan.versions, "\n");
  }
  if (plan.slices > 1) absl::StrAppend(&out, "slices ", plan.slices, "\n");
  if (plan.forward_only) absl::StrAppend(&out, "forward only\n");
  absl::StrAppend(&out, Print(plan.rows));
  AppendStages(plan, &out);
  if (plan.split.kind != Split::Kind::kEven) absl::StrAppend(&out, Print(plan.split), "\n");
  if (!plan.recompute.empty()) {
    absl::StrAppend(&out, "recompute ", absl::StrJoin(plan.recompute, " "), "\n");
  }
  for (const Overlap& overlap : plan.overlaps) absl::StrAppend(&out, Print(overlap), "\n");
  if (plan.chunks > 1) absl::StrAppend(&out, "chunks ", plan.chunks, "\n");
  if (plan.gathers_ahead != 1) absl::StrAppend(&out, "ahead ", plan.gathers_ahead, "\n");
  if (plan.window > 0) absl::StrAppend(&out, "window ", plan.window, " slack ", plan.slack, "\n");
  if (!plan.costs.empty()) absl::StrAppend(&out, Print(plan.costs), "\n");
  if (!plan.searched.empty()) absl::StrAppend(&out, Print(plan.searched), "\n");
  for (int r = 0; r < plan.ranks(); ++r) {
    absl::StrAppend(&out, "rank ", r, ":");
    for (const Action& action : plan.of(RankId(r))) {
      absl::StrAppend(&out, action.joined ? "&" : " ", Print(plan, action));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

bool HasCopies(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(),
                     [](const Action& action) { return IsCopy(action.kind); });
}

MicrobatchId Plan::OfStep(int step, int32_t microbatch) const {
  int first = 0, count = microbatches;
  for (const Pipe& pipe : pipes) {
    if (pipe.first_microbatch / steps > microbatch) break;
    first = pipe.first_microbatch;
    count = pipe.microbatches;
  }
  return MicrobatchId(first + count / steps * step + microbatch - first / steps);
}

bool HasUpdates(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(),
                     [](const Action& action) { return action.kind == ActionKind::kUpdate; });
}

bool HasSteps(const Plan& plan) { return plan.steps > 1 || plan.versions > 1 || HasUpdates(plan); }

void FindRemaking(Plan* plan) {
  for (Stage& stage : plan->stages) stage.remakes = false;
  for (const Action& action : plan->actions) {
    if (action.kind == ActionKind::kRecompute) plan->stages[action.stage.value].remakes = true;
  }
}

std::string WhereOf(const Plan& plan, const Action& action) {
  std::string out;
  AppendIterations(plan, action.iteration, &out);
  return absl::StrCat(out, out.empty() ? "" : ", ", PrintParameters(plan));
}

Span SpanOf(const Plan& plan, const Action& action) {
  return action.place < plan.places.size() ? plan.places[action.place] : plan.header;
}

std::string PrintLine(const Plan& plan, const Action& action) {
  if (plan.source == nullptr) return "";
  const uint32_t place = SpanOf(plan, action).begin;
  return absl::StrCat(" (", plan.source->PathAt(place), ":", plan.source->Locate(place).line, ")");
}

std::string PrintWithLine(const Plan& plan, const Action& action) {
  return Print(plan, action) + PrintLine(plan, action);
}

}  // namespace stringline
