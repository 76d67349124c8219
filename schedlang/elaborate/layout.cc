#include "schedlang/elaborate/layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// The layouts by name: their number N of stages, and the rank of stage s on P ranks.
//
//   line   s                         N = P
//   loop   s mod P                   N a multiple of P
//   v      down, then back up        N = 2 P
//   wave   down, back up, down, …    N a multiple of P
struct LayoutRow {
  const char* name;
  int64_t stages_per_rank;  // 0: any number
  bool turns;               // every second pass over the ranks goes back
};

constexpr LayoutRow kLayouts[] = {
    {"line", 1, false},
    {"loop", 0, false},
    {"v", 2, true},
    {"wave", 0, true},
};

int64_t RankOnLayout(const LayoutRow& row, int64_t stage, int64_t ranks) {
  const int64_t along = stage % ranks;
  const bool back = row.turns && stage / ranks % 2 == 1;
  return back ? ranks - 1 - along : along;
}

class Placement {
 public:
  Placement(const Program& program, int pipe, int64_t ranks, Evaluator* evaluator, Plan* plan,
            Diagnostics* diagnostics)
      : stages_(program.pipes[pipe].stages),
        pipe_(pipe),
        first_(static_cast<int32_t>(plan->stages.size())),
        ranks_(ranks),
        evaluator_(evaluator),
        plan_(plan),
        diagnostics_(diagnostics),
        count_span_(program.nodes[stages_.count].span) {}

  bool Place(const ElaborateLimits& limits) {
    const int64_t count = evaluator_->Evaluate(stages_.count);
    if (evaluator_->failed()) return Failed();
    const std::string values = evaluator_->ValuesIn(stages_.count);
    if (count < 1) return Bad(count_span_, absl::StrCat("there are ", count, " stages", values));
    if (count > limits.ranks - first_) {
      return Bad(count_span_,
                 absl::StrCat("there are ", count, " stages, more than ", limits.ranks, values));
    }
    if (count > limits.stages_per_rank * ranks_) {
      return Bad(count_span_,
                 absl::StrCat("there are ", count, " stages for ", ranks_, " ranks, more than ",
                              limits.stages_per_rank, " a rank", values));
    }
    if (stages_.layout != Layout::kExpression && !Fits(count)) return false;
    for (int64_t stage = 0; stage < count; ++stage) {
      if (!PlaceStage(stage)) return false;
    }
    plan_->SetChains();
    return true;
  }

 private:
  bool Fits(int64_t count) {
    const LayoutRow& row = kLayouts[static_cast<size_t>(stages_.layout)];
    const bool fits =
        row.stages_per_rank == 0 ? count % ranks_ == 0 : count == row.stages_per_rank * ranks_;
    if (fits) return true;
    const std::string per_rank = row.stages_per_rank == 0   ? "the same number of stages"
                                 : row.stages_per_rank == 1 ? "one stage"
                                                            : "two stages";
    return Bad(stages_.span,
               absl::StrCat("there are ", count, " stages for ", ranks_, " ranks, and '", row.name,
                            "' puts ", per_rank, " on every rank"));
  }

  bool PlaceStage(int64_t stage) {
    int64_t rank = 0;
    if (stages_.layout == Layout::kExpression) {
      evaluator_->Set(stages_.slot, stage);
      rank = evaluator_->Evaluate(stages_.rank);
      if (evaluator_->failed()) return Failed();
      if (rank < 0 || rank >= ranks_) {
        return Bad(stages_.span, absl::StrCat("stage ", stage, " is put on rank ", rank,
                                              ", but the ranks are 0 .. ", ranks_ - 1));
      }
    } else {
      rank = RankOnLayout(kLayouts[static_cast<size_t>(stages_.layout)], stage, ranks_);
    }
    if (stages_.reversed) rank = ranks_ - 1 - rank;
    plan_->stages.push_back({.rank = RankId(static_cast<int32_t>(rank)), .pipe = pipe_});
    return true;
  }

  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadStages, span, std::move(text)).where = PrintParameters(*plan_);
    return false;
  }

  bool Failed() {
    AddFailure(evaluator_->TakeFailure(), PrintParameters(*plan_), diagnostics_);
    return false;
  }

  const StagesStep& stages_;
  int pipe_;
  int32_t first_;  // the pipe's first stage
  int64_t ranks_;
  Evaluator* evaluator_;
  Plan* plan_;
  Diagnostics* diagnostics_;
  Span count_span_;
};

}  // namespace

const std::vector<std::string>& LayoutNames() {
  static const auto* names = [] {
    auto* made = new std::vector<std::string>;
    for (const LayoutRow& row : kLayouts) made->push_back(row.name);
    return made;
  }();
  return *names;
}

std::optional<Layout> LayoutNamed(absl::string_view name) {
  const auto row = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                [name](const LayoutRow& of) { return name == of.name; });
  if (row == std::end(kLayouts)) return std::nullopt;
  return static_cast<Layout>(row - std::begin(kLayouts));
}

std::string Print(const Placing& placing) {
  const char* const name = kLayouts[static_cast<size_t>(placing.layout)].name;
  if (StagesPerRankOf(placing.layout).is_fixed) return name;
  return absl::StrCat(name, " ", placing.stages_per_rank);
}

StagesPerRank StagesPerRankOf(Layout layout) {
  const LayoutRow& row = kLayouts[static_cast<size_t>(layout)];
  if (row.stages_per_rank > 0) return {row.stages_per_rank, true};
  return {row.turns ? 4 : 2, false};  // a wave of two is a V
}

const std::vector<Placing>& AnyPlacings() {
  static const auto* any = new std::vector<Placing>{{Layout::kLine, 1},
                                                    {Layout::kV, 2},
                                                    {Layout::kLoop, 2},
                                                    {Layout::kWave, 4},
                                                    {Layout::kLoop, 3}};
  return *any;
}

std::vector<Stage> StagesOn(const Placing& placing, int64_t ranks) {
  const LayoutRow& row = kLayouts[static_cast<size_t>(placing.layout)];
  const int64_t count = placing.stages_per_rank * ranks;
  std::vector<Stage> stages;
  for (int64_t s = 0; s < count; ++s) {
    stages.push_back({.rank = RankId(static_cast<int32_t>(RankOnLayout(row, s, ranks)))});
  }
  return stages;
}

bool PlaceStages(const Program& program, int pipe, int64_t ranks, const ElaborateLimits& limits,
                 Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  return Placement(program, pipe, ranks, evaluator, plan, diagnostics).Place(limits);
}

}  // namespace stringline
