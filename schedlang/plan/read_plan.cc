// A single pass from the top: header, stages or pipes, then a line for each rank. Every action is
// compared with the stages known by then, so every stage, rank and microbatch of a plan that has
// been read exists.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/plan_file.h"
#include "schedlang/plan/read_extra.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/plan/text_form.h"

namespace stringline {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

// Each of the following says why an action cannot stand in the plan as read so far, in words that
// follow the action's name; empty if it can.

std::string NoSuchAction(const Plan& plan, const Action& action) {
  if (action.stage.value >= static_cast<int>(plan.stages.size())) {
    return absl::StrCat(": there are only ", plan.stages.size(), " stages");
  }
  const bool updates = action.kind == ActionKind::kUpdate;
  const int slices = updates ? 1 : plan.slices;
  const int most = updates ? plan.steps : plan.microbatches_of(action.stage) / slices;
  if (action.microbatch.value / slices >= most) {
    const absl::string_view counted = updates     ? (most == 1 ? " step" : " steps")
                                      : most == 1 ? " microbatch"
                                                  : " microbatches";
    return absl::StrCat(": there ", most == 1 ? "is" : "are", " only ", most, counted);
  }
  if (ComputesMicrobatch(action.kind) && plan.LeavesOut(action.stage, action.microbatch)) {
    return absl::StrCat(": the microbatch leaves stage ", action.stage.value, " out");
  }
  return "";
}

// A message of a plan whose stages are no chain names its edge by the other stage.
std::string NoSuchEdge(const Plan& plan, const Action& action) {
  if (!IsMessage(action.kind)) return "";
  if (action.other >= 0 && (plan.graph.is_chain() || EdgeOf(plan, action) == nullptr)) {
    return absl::StrCat(": no edge joins stage ", action.stage.value, " and ", action.other);
  }
  if (!plan.graph.is_chain() && action.other < 0) {
    return absl::StrCat(": of a plan with edges a message names its other stage, as ",
                        Print(plan, action), ">1");
  }
  return "";
}

std::string NotOfAGroup(const Plan& plan, const Action& action) {
  constexpr absl::string_view kAlone = " cannot be part of a group";
  if (action.kind == ActionKind::kUpdate || IsCollective(action.kind)) return std::string(kAlone);
  if (IsOwn(action.kind)) {
    return absl::StrCat(kAlone, ": an action of the schedule's own runs alone");
  }
  if (IsCopy(action.kind)) {
    return absl::StrCat(kAlone, ": a copy runs beside computations by itself");
  }
  if (action.joined && IsMessage(plan.actions.back().kind) != IsMessage(action.kind)) {
    return " cannot share its group: computation and messages do not mix";
  }
  return "";
}

std::string ReasonAgainst(const Plan& plan, RankId rank, const Action& action, bool grouped) {
  std::string reason = NoSuchAction(plan, action);
  if (reason.empty()) reason = NoSuchEdge(plan, action);
  if (!reason.empty()) return reason;
  const RankId home = RankOf(plan, action);
  if (home != rank) {
    return absl::StrCat(": stage ", action.stage.value, " lives on rank ", home.value,
                        ", not on rank ", rank.value);
  }
  if (grouped) reason = NotOfAGroup(plan, action);
  if (!reason.empty()) return reason;
  const bool remade = plan.recompute.empty() || plan.recompute[action.stage.value] == 0;
  if (action.kind == ActionKind::kRecompute && remade) {
    return absl::StrCat(": no line 'recompute' says that stage ", action.stage.value,
                        " recomputes");
  }
  if (plan.forward_only && !IsOfForwardOnly(action.kind)) {
    return " stands in a plan that is forward only";
  }
  const bool anywhere =
      TakesTurn(action.kind) || IsOwnNetwork(action.kind) || IsCollective(action.kind);
  if (anywhere || plan.lowered) return "";
  return ": only a plan marked 'lowered' holds sends and receives";
}

class PlanReader {
 public:
  PlanReader(const Source& source, Diagnostics* diagnostics)
      : lines_(WordLines(source)), diagnostics_(diagnostics) {
    end_ = static_cast<uint32_t>(source.text().size());
  }

  std::optional<PlanFile> Read() {
    if (!ReadHeader() || !ReadSteps() || !ReadSlicesLine() || !ReadForwardOnly() || !ReadRows() ||
        !ReadStages() || !ReadEdgesLine() || !ReadSkipsLine() || !RowsFit() || !ReadExtras())
      return std::nullopt;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const size_t line = static_cast<size_t>(rank) + next_;
      if (line >= lines_.size()) {
        Complain({end_, end_}, absl::StrCat("the line of rank ", rank, " is missing"));
        return std::nullopt;
      }
      if (!ReadRank(rank, lines_[line])) return std::nullopt;
    }
    if (lines_.size() > static_cast<size_t>(ranks_) + next_) {
      Complain(lines_[ranks_ + next_][0].span,
               absl::StrCat("unexpected line after rank ", ranks_ - 1, ", the last of P=", ranks_));
      return std::nullopt;
    }
    FindRemaking(&plan_);
    return PlanFile{std::move(plan_), issued_, std::move(waits_)};
  }

 private:
  bool Complain(Span span, std::string text) {
    diagnostics_->Add(Code::kPlanText, span, std::move(text));
    return false;
  }

  bool ReadHeader() {
    if (lines_.empty() || lines_[0][0].text != "plan" || lines_[0].size() < 2) {
      return Complain(lines_.empty() ? Span{end_, end_} : lines_[0][0].span,
                      "expected 'plan NAME P=… M=…'");
    }
    const std::vector<Word>& words = lines_[0];
    plan_.schedule = std::string(words[1].text);
    plan_.header = words[1].span;
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].text == "lowered" && i + 1 == words.size()) {
        plan_.lowered = true;
        continue;
      }
      const auto parameter = ReadParameter(words[i].text);
      if (!parameter) return Complain(words[i].span, "expected a parameter like P=4");
      plan_.parameters.push_back(*parameter);
    }
    const auto p = ValueOf(plan_.parameters, "P"), m = ValueOf(plan_.parameters, "M");
    if (!p || !m) return Complain(plan_.header, "the plan's parameters P and M are missing");
    if (*p < 1 || *p > kMostRanks) return Complain(plan_.header, absl::StrCat("P is ", *p));
    if (*m < 1 || *m > kMostRanks) return Complain(plan_.header, absl::StrCat("M is ", *m));
    ranks_ = *p;
    plan_.microbatches = static_cast<int>(*m);
    return true;
  }

  // "steps 3 versions 2", if there are more than one of either.
  bool ReadSteps() {
    next_ = 1;
    if (lines_.size() < 2 || lines_[1][0].text != "steps") return true;
    const std::vector<Word>& words = lines_[next_++];
    const bool is_whole = words.size() == 4 && words[2].text == "versions";
    const auto steps = is_whole ? ReadNumber(words[1].text, kMostSteps) : std::nullopt;
    const auto versions = is_whole ? ReadNumber(words[3].text, kMostVersions) : std::nullopt;
    if (!steps || !versions || *steps < 1 || *versions < 1) {
      return Complain(words[0].span,
                      absl::StrCat("expected 'steps N versions K' with 1 to ", kMostSteps,
                                   " steps and 1 to ", kMostVersions, " versions"));
    }
    if (*steps * plan_.microbatches > kMostRanks) {
      return Complain(words[1].span, absl::StrCat("steps times microbatches is over ", kMostRanks));
    }
    plan_.steps = static_cast<int>(*steps);
    plan_.versions = static_cast<int>(*versions);
    return true;
  }

  // "slices 4", if microbatches have slices.
  bool ReadSlicesLine() {
    if (next_ >= lines_.size() || lines_[next_][0].text != "slices") return true;
    const std::vector<Word>& words = lines_[next_++];
    const auto slices = ReadSlices(words);
    if (!slices) return Complain(words[0].span, BadSlices());
    if (int64_t{*slices} * plan_.steps * plan_.microbatches > kMostRanks) {
      return Complain(words[1].span,
                      absl::StrCat("slices of all microbatches are over ", kMostRanks));
    }
    plan_.slices = *slices;
    return true;
  }

  // "forward only", of a plan without backwards.
  bool ReadForwardOnly() {
    if (next_ >= lines_.size() || !IsForwardOnly(lines_[next_])) return true;
    plan_.forward_only = true;
    const Span line = lines_[next_++][0].span;
    return !HasSteps(plan_) || Complain(line, "a plan that is forward only has one step");
  }

  // The lines of the schedule's own values and actions. The ranks of values are by stage: the
  // stages follow, so those of a value are counted by ReadStages.
  bool ReadRows() {
    for (; next_ < lines_.size(); ++next_) {
      const std::vector<Word>& words = lines_[next_];
      if (!BeginsRow(words)) break;
      if (!ReadRow(words, ranks_, &plan_.rows)) {
        return Complain(words[0].span,
                        "expected 'value NAME', with 'on host', 'on each rank' or 'on ranks 1 0', "
                        "or 'action NAME LANE' with 'by', 'needs', 'gives' and 'frees'");
      }
    }
    return plan_.rows.empty() || ranks_ < kMostRanksOfRows ||
           Complain(plan_.header,
                    absl::StrCat("a plan with rows has less than ", kMostRanksOfRows, " ranks"));
  }

  bool RowsFit() {
    for (const OwnValue& value : plan_.rows.values) {
      if (value.ranks.empty() || value.ranks.size() == plan_.stages.size()) continue;
      return Complain(value.span, absl::StrCat("value ", value.name, " says ", value.ranks.size(),
                                               " ranks for ", plan_.stages.size(), " stages"));
    }
    return true;
  }

  bool ReadStages() {
    const size_t first = next_;
    while (next_ < lines_.size() && lines_[next_][0].text == "pipe") {
      if (!ReadPipe(lines_[next_])) return false;
      ++next_;
    }
    if (!plan_.pipes.empty()) {
      if (!PipesFit(lines_[first][0].span)) return false;
      CountStepsAndSlices(&plan_);
      return FitsMemory(lines_[first][0].span, plan_.stages.size());
    }
    const bool is_there = first < lines_.size();
    if (!is_there || lines_[first][0].text != "stages" || lines_[first].size() < 2) {
      return Complain(is_there ? lines_[first][0].span : Span{end_, end_},
                      "expected 'stages' and the rank of every stage");
    }
    next_ = first + 1;
    CountStepsAndSlices(&plan_);
    return ReadPlacement(absl::MakeConstSpan(lines_[first]).subspan(1));
  }

  // "pipe down M=4 stages 0 1 2 3"
  bool ReadPipe(const std::vector<Word>& words) {
    const auto count = words.size() > 4 ? ReadParameter(words[2].text) : std::nullopt;
    if (!count || count->name != "M" || words[3].text != "stages") {
      return Complain(words[0].span, "expected 'pipe NAME M=… stages' and the rank of every stage");
    }
    if (count->value < 0 || count->value > plan_.microbatches) {
      return Complain(words[2].span,
                      absl::StrCat("there are only ", plan_.microbatches, " microbatches"));
    }
    Pipe pipe{.name = std::string(words[1].text)};
    pipe.first_stage = StageId(static_cast<int32_t>(plan_.stages.size()));
    pipe.stages = static_cast<int>(words.size()) - 4;
    if (!plan_.pipes.empty()) {
      const Pipe& before = plan_.pipes.back();
      pipe.first_microbatch = before.first_microbatch + before.microbatches;
    }
    pipe.microbatches = static_cast<int>(count->value);
    plan_.pipes.push_back(std::move(pipe));
    return ReadPlacement(absl::MakeConstSpan(words).subspan(4));
  }

  // `first`: the place of the first pipe.
  bool PipesFit(Span first) {
    int64_t sum = 0;
    for (const Pipe& pipe : plan_.pipes) {
      sum += pipe.microbatches;
      if (pipe.stages == plan_.pipes[0].stages) continue;
      return Complain(first, "the pipes have different numbers of stages");
    }
    return sum == plan_.microbatches ||
           Complain(first,
                    absl::StrCat("the pipes run ", sum, " microbatches, not ", plan_.microbatches));
  }

  bool FitsMemory(Span place, size_t stages) {
    return static_cast<int64_t>(stages) * plan_.microbatches <= (1 << 28) ||
           Complain(place, "stages times microbatches is over 268 million");
  }

  // The ranks of a row of neighbouring stages.
  bool ReadPlacement(absl::Span<const Word> words) {
    const int count = static_cast<int>(words.size());
    if (!FitsMemory(words[0].span, plan_.stages.size() + words.size())) return false;
    for (int s = 0; s < count; ++s) {
      const auto rank = ReadNumber(words[s].text, ranks_ - 1);
      if (!rank) return Complain(words[s].span, absl::StrCat("expected a rank below ", ranks_));
      Stage stage{.rank = RankId(static_cast<int32_t>(*rank))};
      stage.pipe = std::max(0, static_cast<int32_t>(plan_.pipes.size()) - 1);
      plan_.stages.push_back(stage);
    }
    plan_.SetChains();
    return true;
  }

  // "edges 0>1 0>2 1>2", if stages are no chain.
  bool ReadEdgesLine() {
    if (next_ >= lines_.size() || lines_[next_][0].text != "edges") return true;
    const std::vector<Word>& words = lines_[next_++];
    const auto stages = static_cast<int>(plan_.stages.size());
    auto edges = ReadEdges(words, stages);
    if (!edges) {
      return Complain(words[0].span,
                      absl::StrCat("expected 'edges' and edges like 0>1, none of them twice, ",
                                   "between stages below ", stages));
    }
    if (!plan_.pipes.empty() || stages > kMostStagesOfEdges) {
      return Complain(words[0].span, absl::StrCat("a plan with edges has no pipes, and at most ",
                                                  kMostStagesOfEdges, " stages"));
    }
    plan_.graph = StageGraph(stages, *std::move(edges));
    if (const auto cycle = plan_.graph.FindCycle(); !cycle.empty()) {
      return Complain(words[0].span,
                      absl::StrCat("the edges have a cycle: stages ", PrintCycle(cycle)));
    }
    return true;
  }

  // "skip 2@1 2@3", if microbatches leave stages out.
  bool ReadSkipsLine() {
    if (next_ >= lines_.size() || lines_[next_][0].text != "skip") return true;
    const std::vector<Word>& words = lines_[next_++];
    const int in_step = plan_.microbatches_in_step();
    auto skips = ReadSkips(words, static_cast<int>(plan_.stages.size()), in_step);
    if (!skips) {
      return Complain(words[0].span,
                      "expected 'skip' and stages that microbatches of a step leave out, as 2@1, "
                      "none of them twice");
    }
    if (!plan_.pipes.empty() || !plan_.rows.empty()) {
      return Complain(words[0].span,
                      "a plan with pipes, or with actions of its own, skips nothing");
    }
    const std::string reason = plan_.SetSkips(*std::move(skips));
    return reason.empty() || Complain(words[0].span, reason);
  }

  // The lines between the stages and the ranks: 'split', 'recompute', 'overlap' and so on.
  bool ReadExtras() {
    bool good = true;
    for (; next_ < lines_.size() && lines_[next_][0].text != "rank"; ++next_) {
      if (lines_[next_][0].text == "messages") {
        if (!ReadMessages(lines_[next_])) return false;
        continue;
      }
      if (!ReadExtra(lines_[next_], &plan_)) {
        return Complain(lines_[next_][0].span,
                        "expected 'rank 0:', or a 'split', 'recompute', 'overlap', 'costs', "
                        "'search' or 'messages' line");
      }
      if (lines_[next_][0].text == "overlap") good = LastOverlapIsGood() && good;
    }
    return good;
  }

  // "messages pair lazy"
  bool ReadMessages(const std::vector<Word>& words) {
    const auto layout = words.size() < 2 ? std::nullopt : ReadCommLayout(words[1].text);
    const bool lazy = words.size() == 3 && words[2].text == "lazy";
    if (!layout || issued_ || words.size() > 3 || (words.size() == 3 && !lazy)) {
      return Complain(words[0].span,
                      "expected 'messages shared', 'updown', 'pair' or 'edge', and 'lazy' behind "
                      "it or nothing, once");
    }
    if (!plan_.lowered || !plan_.graph.is_chain()) {
      return Complain(words[0].span,
                      "only a plan marked 'lowered', whose stages are a chain, has a line "
                      "'messages'");
    }
    issued_ = IssuedMessages{*layout, lazy};
    return true;
  }

  // Drops a bad block.
  bool LastOverlapIsGood() {
    const auto others = absl::MakeConstSpan(plan_.overlaps).first(plan_.overlaps.size() - 1);
    const bool good = CheckOverlap(plan_.overlaps.back(), others, diagnostics_);
    if (!good) plan_.overlaps.pop_back();
    return good;
  }

  bool ReadRank(int64_t rank, const std::vector<Word>& words) {
    const std::string head = absl::StrCat(rank, ":");
    if (words.size() < 2 || words[0].text != "rank" || words[1].text != head) {
      return Complain(words[0].span, absl::StrCat("expected 'rank ", head, "'"));
    }
    begun_.clear();
    for (size_t i = 2; i < words.size(); ++i) {
      const bool waits = words[i].text.find("WAIT_") != absl::string_view::npos;
      const RankId id(static_cast<int32_t>(rank));
      if (!(waits ? ReadWait(id, words[i]) : ReadGroup(id, words[i]))) return false;
    }
    plan_.first.push_back(static_cast<uint32_t>(plan_.actions.size()));
    return true;
  }

  // "0WAIT_SEND_F3", behind its 0SEND_F3.
  bool ReadWait(RankId rank, const Word& word) {
    const size_t wait = word.text.find("WAIT_");
    const std::string message =
        absl::StrCat(word.text.substr(0, wait), word.text.substr(wait + sizeof("WAIT_") - 1));
    absl::string_view rest = message;
    Action action;
    if (!ReadAction(plan_.pipes, plan_.rows, plan_.slices, &rest, &action) || !rest.empty() ||
        !IsMessage(action.kind)) {
      return Complain(word.span, "expected a wait like 3WAIT_SEND_F7, for a send or a receive");
    }
    if (!issued_) {
      return Complain(word.span, absl::StrCat(word.text,
                                              ": only a plan with a line 'messages' "
                                              "holds waits"));
    }
    if (begun_.count({action.kind, action.stage, action.microbatch}) == 0) {
      return Complain(word.span, absl::StrCat(word.text, ": rank ", rank.value, " has no ", message,
                                              " before it"));
    }
    waits_.push_back({action.kind, action.stage, action.microbatch, rank,
                      static_cast<uint32_t>(plan_.actions.size()), word.span});
    return true;
  }

  bool ReadGroup(RankId rank, const Word& word) {
    const auto place = static_cast<uint32_t>(plan_.places.size());
    plan_.places.push_back(word.span);
    absl::string_view rest = word.text;
    for (bool joined = false;; joined = true) {
      Action action;
      action.joined = joined;
      action.place = place;
      if (!ReadAction(plan_.pipes, plan_.rows, plan_.slices, &rest, &action))
        return Complain(word.span, "expected an action like 3F7");
      if (plan_.rows.IsOfEveryRank(action.kind)) action.other = static_cast<int16_t>(rank.value);
      // The text may say what a chain tells.
      const bool in_range = action.stage.value < static_cast<int>(plan_.stages.size());
      if (IsMessage(action.kind) && plan_.graph.is_chain() && in_range &&
          PeerStage(plan_, action).value == action.other) {
        action.other = -1;
      }
      const bool grouped = word.text.find('&') != absl::string_view::npos;
      const std::string reason = ReasonAgainst(plan_, rank, action, grouped);
      if (!reason.empty()) return Complain(word.span, Print(plan_, action) + reason);
      plan_.actions.push_back(action);
      if (issued_ && IsMessage(action.kind)) {
        begun_.emplace(action.kind, action.stage, action.microbatch);
      }
      if (rest.empty()) return true;
      if (rest[0] != '&') return Complain(word.span, "expected '&' or a space after an action");
      rest.remove_prefix(1);
    }
  }

  const std::vector<std::vector<Word>> lines_;
  Diagnostics* diagnostics_;
  uint32_t end_ = 0;
  int64_t ranks_ = 0;
  size_t next_ = 0;  // the first unread line; then: the line of rank 0
  Plan plan_;
  std::optional<IssuedMessages> issued_;
  std::vector<MessageWait> waits_;
  // With `issued_`: the messages of the rank so far.
  std::set<std::tuple<ActionKind, StageId, MicrobatchId>> begun_;
};

}  // namespace

std::optional<PlanFile> ReadPlanFile(const Source& source, Diagnostics* diagnostics) {
  return PlanReader(source, diagnostics).Read();
}

std::optional<Plan> ReadPlan(const Source& source, Diagnostics* diagnostics) {
  std::optional<PlanFile> file = ReadPlanFile(source, diagnostics);
  if (!file) return std::nullopt;
  if (file->issued) {
    diagnostics->Add(Code::kPlanText, file->plan.header,
                     "a plan with a line 'messages' cannot stand here");
    return std::nullopt;
  }
  return std::move(file->plan);
}

}  // namespace stringline
