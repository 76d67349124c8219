// A look at all cells gives the file's form and the version of its letters. Then the file is read
// cell by cell. The ranks of stages and the number of microbatches follow from the cells.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/torch/torch_cells.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {
namespace {

constexpr absl::string_view kOverlap = "OVERLAP_F_B";

// "out/zb v.csv" -> "zb_v": a plan's name is one word.
std::string NameOf(absl::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  std::string name(path.substr(0, path.rfind('.')));
  for (char& c : name) {
    if (!absl::ascii_isalnum(c)) c = '_';
  }
  return name.empty() ? "torch" : name;
}

// The parts of a cell that begins with '('; nothing, with the reason in *fault, unless the cell is
// "(…;…)OVERLAP_F_B".
std::optional<std::vector<TorchCell>> PartsOf(const TorchCell& cell, std::string* fault) {
  const size_t close = cell.text.find(')');
  if (close == absl::string_view::npos) {
    *fault = "the '(' is never closed";
    return std::nullopt;
  }
  const absl::string_view inside = cell.text.substr(1, close - 1);
  if (absl::StrContains(inside, '(')) {
    *fault = "a group inside a group; torch has no such thing";
    return std::nullopt;
  }
  if (cell.text.substr(close + 1) != kOverlap) {
    *fault = absl::StrCat("expected ", kOverlap, " behind the ')'");
    return std::nullopt;
  }
  std::vector<TorchCell> parts;
  for (size_t begin = 0; begin <= inside.size();) {
    const size_t end = std::min(inside.find(';', begin), inside.size());
    const absl::string_view text = absl::StripAsciiWhitespace(inside.substr(begin, end - begin));
    const auto at = cell.span.begin + static_cast<uint32_t>(text.data() - cell.text.data());
    parts.push_back({text, {at, at + static_cast<uint32_t>(text.size())}});
    begin = end + 1;
  }
  return parts;
}

class TorchReader {
 public:
  TorchReader(const Source& source, Diagnostics* diagnostics)
      : rows_(TorchRows(source)), diagnostics_(diagnostics) {
    file_.plan.schedule = NameOf(source.path());
  }

  std::optional<TorchFile> Read() {
    if (rows_.empty()) Complain({0, 0}, "the file is empty");
    LookAround();
    for (const std::vector<TorchCell>& row : rows_) ReadRow(row);
    if (!diagnostics_->empty()) return std::nullopt;
    PlaceStages();
    CountMicrobatches();
    if (!diagnostics_->empty()) return std::nullopt;
    return std::move(file_);
  }

 private:
  Diagnostic& Complain(Span span, std::string text, int count = 1) {
    return diagnostics_->Add(Code::kTorchCsv, span, std::move(text), count);
  }

  // Finds the form and the letters, which only the whole file tells.
  void LookAround() {
    bool old_backward = false, input = false, weight = false, group = false;
    for (const std::vector<TorchCell>& row : rows_) {
      for (const TorchCell& cell : row) {
        const absl::string_view kind = TorchKindOf(cell.text);
        file_.plan.lowered |= kind.size() > 2 && kind != kOverlap;
        old_backward |= kind == "BW";
        input |= kind == "I";
        weight |= kind == "W";
        group |= absl::StartsWith(cell.text, "(");
      }
    }
    file_.legacy = old_backward || (weight && !input && !group);
  }

  void ReadRow(const std::vector<TorchCell>& row) {
    Plan& plan = file_.plan;
    const RankId rank(plan.ranks());
    const auto is_empty = [](const TorchCell& cell) { return cell.text.empty(); };
    const auto empty = std::count_if(row.begin(), row.end(), is_empty);
    if (empty == static_cast<std::ptrdiff_t>(row.size())) {
      Complain(row[0].span, absl::StrCat("rank ", rank.value,
                                         " does nothing; torch takes every line for a rank"));
    } else if (empty > 0 && plan.lowered) {
      Complain(std::find_if(row.begin(), row.end(), is_empty)->span,
               "an empty cell; torch takes none in a file with communication",
               static_cast<int>(empty));
    }
    for (const TorchCell& cell : row) {
      if (cell.text.empty()) continue;
      if (cell.text[0] == '(') {
        ReadGroup(rank, cell);
      } else {
        ReadSingle(rank, cell, false);
      }
    }
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }

  void ReadGroup(RankId rank, const TorchCell& cell) {
    std::string fault;
    const auto parts = PartsOf(cell, &fault);
    if (!parts) {
      Complain(cell.span, std::move(fault));
      return;
    }
    const size_t first = file_.plan.actions.size();
    for (size_t i = 0; i < parts->size(); ++i) {
      if (!ReadSingle(rank, (*parts)[i], i > 0)) return;
    }
    const auto group = absl::MakeConstSpan(file_.plan.actions).subspan(first);
    if (group.size() == 2 && group[0].kind == ActionKind::kForward &&
        group[1].kind == ActionKind::kBackward) {
      return;
    }
    Complain(cell.span, absl::StrCat(kOverlap,
                                     " holds a forward and then a whole backward, as in "
                                     "(0F7;7B3)",
                                     kOverlap));
  }

  bool ReadSingle(RankId rank, const TorchCell& cell, bool joined) {
    std::string fault;
    const auto read = ReadTorchAction(cell.text, file_.legacy, &fault);
    if (!read) {
      Complain(cell.span, std::move(fault));
      return false;
    }
    if (!Claim(rank, *read, cell)) return false;
    Plan& plan = file_.plan;
    if (read->wait) {
      file_.waits.push_back({read->kind, read->stage, read->microbatch, rank,
                             static_cast<uint32_t>(plan.actions.size()), cell.span});
      return true;
    }
    const auto place = static_cast<uint32_t>(plan.places.size());
    plan.actions.push_back({.kind = read->kind,
                            .joined = joined,
                            .stage = read->stage,
                            .microbatch = read->microbatch,
                            .place = place});
    plan.places.push_back(cell.span);
    return true;
  }

  // The first cell of a stage determines its rank.
  struct Claimed {
    RankId rank;
    Span span;
    int microbatches = 0;  // one more than the highest of its forwards
  };

  bool Claim(RankId rank, const TorchAction& action, const TorchCell& cell) {
    const auto [claimed, is_new] = stages_.try_emplace(action.stage, Claimed{rank, cell.span});
    if (claimed->second.rank != rank) {
      Complain(cell.span, absl::StrCat("stage ", action.stage.value, " on rank ", rank.value,
                                       ", but it lives on rank ", claimed->second.rank.value))
          .notes.push_back({claimed->second.span, "it is first named here", ""});
      return false;
    }
    if (action.kind == ActionKind::kForward) {
      int& highest = claimed->second.microbatches;
      highest = std::max(highest, action.microbatch.value + 1);
    }
    return true;
  }

  void PlaceStages() {
    int32_t expected = 0;
    for (const auto& [stage, claimed] : stages_) {
      if (stage.value != expected) {
        Complain(claimed.span,
                 absl::StrCat("stage ", stage.value, ", but there is no stage ", expected));
        return;
      }
      file_.plan.stages.push_back({claimed.rank});
      ++expected;
    }
    file_.plan.SetChains();
  }

  // The number of microbatches of most stages; the larger number for a tie.
  int MostCommonCount() const {
    std::map<int, int> votes;
    for (const auto& [stage, claimed] : stages_) ++votes[claimed.microbatches];
    const auto best =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second, a.first) < std::pair(b.second, b.first);
        });
    return best == votes.end() ? 0 : best->first;
  }

  void CountMicrobatches() {
    Plan& plan = file_.plan;
    const int count = MostCommonCount();
    if (count == 0) {
      Complain({0, 0}, "most stages have no forward");
      return;
    }
    std::vector<char> seen(count, 0);
    for (const Action& action : plan.actions) {
      const int microbatch = action.microbatch.value;
      if (microbatch >= count) {
        Complain(SpanOf(plan, action),
                 absl::StrCat(Print(plan, action), ": most stages have only ", count,
                              count == 1 ? " microbatch" : " microbatches"));
      } else if (microbatch >= 0) {
        seen[microbatch] = 1;
      }
    }
    const auto gap = std::find(seen.begin(), seen.end(), 0) - seen.begin();
    if (gap < count) {
      const auto later = std::find_if(plan.actions.begin(), plan.actions.end(),
                                      [gap](const Action& a) { return a.microbatch.value > gap; });
      Complain(SpanOf(plan, *later), absl::StrCat(Print(plan, *later),
                                                  ", but nothing is done for "
                                                  "microbatch ",
                                                  gap));
    }
    CheckWaits(count);
    if (static_cast<int64_t>(plan.stages.size()) * count > (1 << 28)) {
      Complain({0, 0}, "stages times microbatches is over 268 million");
    }
    plan.microbatches = count;
    plan.parameters = {{"P", plan.ranks()}, {"M", count}};
  }

  void CheckWaits(int count) {
    for (const MessageWait& wait : file_.waits) {
      if (wait.microbatch.value < count) continue;
      Complain(wait.span, absl::StrCat("most stages have only ", count,
                                       count == 1 ? " microbatch" : " microbatches"));
    }
  }

  const std::vector<std::vector<TorchCell>> rows_;
  Diagnostics* diagnostics_;
  std::map<StageId, Claimed> stages_;
  TorchFile file_;
};

}  // namespace

std::optional<TorchFile> ReadTorchCsv(const Source& source, Diagnostics* diagnostics) {
  return TorchReader(source, diagnostics).Read();
}

}  // namespace stringline
