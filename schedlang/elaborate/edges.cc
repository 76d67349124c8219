// Rows of edges are evaluated for each stage that their names stand for, and `skip` for each stage
// and microbatch. The graph that comes of it is looked through for cycles and for its losses.
#include "schedlang/elaborate/edges.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// The slot of a name that stands for each stage; -1 for an expression of a single one.
int32_t DefineStage(const ast::Expr& stage, const Scope& scope, ExpressionResolver* expressions) {
  const auto* const reference = std::get_if<ast::Reference>(&stage.node);
  if (reference == nullptr || scope.IsKnown(reference->name)) return -1;
  return expressions->DefineValue({reference->name, stage.span});
}

// Evaluates the rows of `edges` for a plan's stages.
class EdgeFinder {
 public:
  EdgeFinder(const Program& program, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics)
      : program_(program),
        evaluator_(evaluator),
        plan_(plan),
        diagnostics_(diagnostics),
        stages_(static_cast<int64_t>(plan->stages.size())) {}

  bool Run() {
    if (stages_ > kMostStagesOfEdges) {
      return Bad(*program_.edges_span,
                 absl::StrCat("there are ", stages_, " stages, and stages ",
                              "that are no chain are at most ", kMostStagesOfEdges));
    }
    for (const EdgeStep& row : program_.edges) {
      if (!FindRow(row)) return false;
    }
    if (edges_.empty()) return Bad(*program_.edges_span, "no stages have an edge between them");
    plan_->graph = StageGraph(static_cast<int>(stages_), std::move(edges_));
    const std::vector<StageId> cycle = plan_->graph.FindCycle();
    if (cycle.empty()) return FitsMemory();
    return Bad(*program_.edges_span, absl::StrCat("a microbatch would go round in a cycle of ",
                                                  "stages: ", PrintCycle(cycle)));
  }

 private:
  bool FindRow(const EdgeStep& row) {
    int64_t from = 0, last = stages_ - 1;
    if (row.from_slot < 0 && !StageAt(row.from, &from)) return false;
    if (row.from_slot < 0) last = from;
    for (; from <= last; ++from) {
      if (row.from_slot >= 0) evaluator_->Set(row.from_slot, from);
      if (!FindFrom(row, from)) return false;
    }
    return true;
  }

  bool FindFrom(const EdgeStep& row, int64_t from) {
    if (row.to_slot < 0) {
      const int64_t to = evaluator_->Evaluate(row.to);
      if (evaluator_->failed()) return Failed();
      const bool exists = to >= 0 && to < stages_;
      if (!exists && row.from_slot >= 0) return true;
      if (!exists) return NoStage(row.to, to);
      return Add(row, from, to);
    }
    for (int64_t to = 0; to < stages_; ++to) {
      evaluator_->Set(row.to_slot, to);
      if (!Add(row, from, to)) return false;
    }
    return true;
  }

  bool StageAt(int32_t node, int64_t* stage) {
    *stage = evaluator_->Evaluate(node);
    if (evaluator_->failed()) return Failed();
    return (*stage >= 0 && *stage < stages_) || NoStage(node, *stage);
  }

  bool Add(const EdgeStep& row, int64_t from, int64_t to) {
    if (row.where >= 0) {
      const int64_t holds = evaluator_->Evaluate(row.where);
      if (evaluator_->failed()) return Failed();
      if (holds == 0) return true;
    }
    if (from == to) {
      return Bad(row.span, absl::StrCat("an edge from stage ", from, " to itself"));
    }
    if (!ends_.emplace(from, to).second) {
      return Bad(row.span,
                 absl::StrCat("the edge from stage ", from, " to stage ", to, " is there already"));
    }
    edges_.push_back({StageId(static_cast<int32_t>(from)), StageId(static_cast<int32_t>(to))});
    return true;
  }

  // As many values as a plan may have of its stages.
  bool FitsMemory() {
    const auto values = static_cast<int64_t>(plan_->graph.edges().size()) * plan_->microbatches;
    return values <= (1 << 28) ||
           Bad(*program_.edges_span, "edges times microbatches is over 268 million");
  }

  bool NoStage(int32_t node, int64_t stage) {
    return Bad(program_.nodes[static_cast<size_t>(node)].span,
               absl::StrCat("there is no stage ", stage, ": the stages are 0 .. ", stages_ - 1,
                            evaluator_->ValuesIn(node)));
  }

  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadEdges, span, std::move(text)).where = PrintParameters(*plan_);
    return false;
  }

  bool Failed() {
    AddFailure(evaluator_->TakeFailure(), PrintParameters(*plan_), diagnostics_);
    return false;
  }

  const Program& program_;
  Evaluator* evaluator_;
  Plan* plan_;
  Diagnostics* diagnostics_;
  const int64_t stages_;
  std::vector<Edge> edges_;
  std::set<std::pair<int64_t, int64_t>> ends_;
};

// The stages of a layout with a loss are those that no edge leaves, and an embedding reads the
// data.
bool LossesFit(const Plan& plan, Diagnostics* diagnostics) {
  const StageGraph& graph = plan.WholeGraph();
  if (graph.is_chain() || plan.split.layout.size() != plan.stages.size()) return true;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    const std::string& holds = plan.split.layout[s];
    const bool loses = holds.find('L') != std::string::npos;
    const char* fault = nullptr;
    if (loses != graph.Out(stage).empty()) {
      fault = loses ? " has a loss, and an edge leaves it" : " has no loss, and no edge leaves it";
    } else if (holds.find('E') != std::string::npos && !graph.In(stage).empty()) {
      fault = " has an embedding, and an edge leads to it";
    }
    if (fault == nullptr) continue;
    diagnostics
        ->Add(Code::kBadSplit, plan.split.span,
              absl::StrCat("stage ", s, " of the layout, '", holds, "',", fault))
        .where = PrintParameters(plan);
    return false;
  }
  return true;
}

// Evaluates `skip` for each stage and microbatch of a step.
bool FitSkip(const SkipStep& skip, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  std::vector<Skip> skips;
  const int microbatches = plan->microbatches_in_step();
  for (size_t s = 0; s < plan->stages.size(); ++s) {
    evaluator->Set(skip.stage_slot, static_cast<int64_t>(s));
    for (int m = 0; m < microbatches; ++m) {
      evaluator->Set(skip.microbatch_slot, m);
      const int64_t holds = evaluator->Evaluate(skip.where);
      if (evaluator->failed()) {
        AddFailure(evaluator->TakeFailure(), PrintParameters(*plan), diagnostics);
        return false;
      }
      if (holds != 0) skips.push_back({StageId(static_cast<int32_t>(s)), m});
    }
  }
  if (skips.empty()) return true;
  const std::string reason = plan->SetSkips(std::move(skips));
  if (reason.empty()) return true;
  diagnostics->Add(Code::kBadEdges, skip.span, reason).where = PrintParameters(*plan);
  return false;
}

}  // namespace

void ResolveEdges(const ast::Edges& edges, Scope* scope, ExpressionResolver* expressions,
                  Program* program) {
  for (const ast::Edges::Row& row : edges.rows) {
    EdgeStep out{.span = row.from.span};
    out.span.end = row.to.span.end;
    scope->OpenBlock();
    out.from_slot = DefineStage(row.from, *scope, expressions);
    out.from = expressions->Resolve(row.from);
    out.to_slot = DefineStage(row.to, *scope, expressions);
    out.to = expressions->Resolve(row.to);
    if (row.where) out.where = expressions->Resolve(*row.where);
    scope->CloseBlock();
    program->edges.push_back(out);
  }
}

void ResolveSkip(const ast::Skip& skip, Scope* scope, ExpressionResolver* expressions,
                 Program* program) {
  SkipStep& out = program->skip.emplace();
  out.span = skip.span;
  scope->OpenBlock();
  out.stage_slot = expressions->DefineValue(skip.stage);
  out.microbatch_slot = expressions->DefineValue(skip.microbatch);
  out.where = expressions->Resolve(skip.where);
  scope->CloseBlock();
}

void CheckEdges(const Program& program, Diagnostics* diagnostics) {
  const bool has_pipes = !program.pipes.empty() && !program.pipes[0].name.empty();
  if (program.skip) {
    const auto find = [&](const char* text) {
      diagnostics->Add(Code::kMisplaced, program.skip->span, text);
    };
    const bool listed = program.mode == RankMode::kSequence || program.mode == RankMode::kTimetable;
    if (has_pipes) find("'skip' cannot stand beside pipes");
    if (!listed) find("'skip' stands in a schedule whose rank block lists actions");
    if (!program.rows.empty()) find("'skip' cannot stand beside actions of the schedule's own");
  }
  if (!program.edges_span) return;
  const auto find = [&](const char* text) {
    diagnostics->Add(Code::kMisplaced, *program.edges_span, text);
  };
  if (has_pipes) find("'edges' cannot stand beside pipes, whose stages are chains");
  if (program.mode == RankMode::kSearch) {
    find("'edges' cannot stand beside a search block: it finds orders of chains of stages");
  }
}

bool FitEdges(const Program& program, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  if (program.edges_span && !EdgeFinder(program, evaluator, plan, diagnostics).Run()) return false;
  if (program.skip && !FitSkip(*program.skip, evaluator, plan, diagnostics)) return false;
  return LossesFit(*plan, diagnostics);
}

}  // namespace stringline
