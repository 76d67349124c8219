#include "schedlang/elaborate/overlap.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// The parts of a stage in the order of its forward.
struct StagePart {
  const char* name;
  bool network;
};
constexpr StagePart kParts[] = {
    {"attn", false}, {"dispatch", true}, {"experts", false}, {"combine", true}};
constexpr int kPartCount = 4;

ActionKind KindOf(const std::string& letter) {
  constexpr absl::string_view kLetters = "FBIW";
  return static_cast<ActionKind>(kLetters.find(letter[0]));
}

int PartIndex(const std::string& name) {
  int i = 0;
  while (i < kPartCount && name != kParts[i].name) ++i;
  return i;
}

class OverlapReader {
 public:
  OverlapReader(const ast::Overlap& written, Diagnostics* diagnostics)
      : written_(written), diagnostics_(diagnostics) {}

  std::optional<Overlap> Read() {
    overlap_.span = written_.span;
    if (!ReadLetters() || !ReadLane(written_.compute, false, &overlap_.compute) ||
        !ReadLane(written_.network, true, &overlap_.network) || !IsComplete() || !CanRun()) {
      return std::nullopt;
    }
    return std::move(overlap_);
  }

 private:
  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadOverlap, span, std::move(text));
    return false;
  }

  bool ReadLetters() {
    if (written_.letters.size() < 2) {
      return Bad(written_.letters[0].span, "an overlap of one action; join two or more by '&'");
    }
    for (const ast::Name& letter : written_.letters) {
      const ActionKind kind = KindOf(letter.text);
      if (std::count(overlap_.kinds.begin(), overlap_.kinds.end(), kind) > 0) {
        return Bad(letter.span,
                   absl::StrCat("'", letter.text, "' twice: their parts could not be told apart"));
      }
      overlap_.kinds.push_back(kind);
    }
    return true;
  }

  bool Has(ActionKind kind) const {
    return std::count(overlap_.kinds.begin(), overlap_.kinds.end(), kind) > 0;
  }

  // Whether the group runs that part: a B brings its weight gradients along, as W.
  bool Runs(ActionKind kind, int part) const {
    const bool weights = kind == ActionKind::kWeightGradient;
    if (weights && kParts[part].network) return false;
    return Has(kind) || (weights && Has(ActionKind::kBackward));
  }

  bool ReadLane(const std::vector<ast::Overlap::Part>& parts, bool network,
                std::vector<Overlap::Part>* lane) {
    for (const auto& [letter, name] : parts) {
      const ActionKind kind = KindOf(letter.text);
      const int part = PartIndex(name.text);
      const std::string whole = absl::StrCat(letter.text, ".", name.text);
      const Span span{letter.span.begin, name.span.end};
      if (part == kPartCount) {
        return Bad(name.span, absl::StrCat("a stage has no part '", name.text,
                                           "'; it has attn, dispatch, experts and combine"));
      }
      if (!Runs(kind, part)) {
        return Bad(span, absl::StrCat("the group has no ", whole));
      }
      if (kParts[part].network != network) {
        return Bad(span,
                   absl::StrCat(whole, " belongs to '", network ? "compute" : "network", "'"));
      }
      if (!places_.emplace(std::pair(kind, part), span).second) {
        return Bad(span, absl::StrCat(whole, " a second time"));
      }
      lane->push_back({kind, name.text, span});
    }
    return true;
  }

  bool IsComplete() {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
      for (int part = 0; part < kPartCount; ++part) {
        if (!Runs(kind, part) || places_.count({kind, part}) > 0) continue;
        return Bad(written_.span,
                   absl::StrCat(PrintedKind(kind), ".", kParts[part].name, " is missing"));
      }
    }
    return true;
  }

  // The part that must have run before this one; none for the first of a chain.
  std::optional<std::pair<ActionKind, int>> Before(ActionKind kind, int part) const {
    if (kind == ActionKind::kWeightGradient) {
      for (const ActionKind gives : {ActionKind::kBackward, ActionKind::kInputGradient}) {
        if (Has(gives)) return std::pair(gives, part);
      }
      return std::nullopt;
    }
    const int before = kind == ActionKind::kForward ? part - 1 : part + 1;
    if (before < 0 || before == kPartCount) return std::nullopt;
    return std::pair(kind, before);
  }

  // Runs both lanes until nothing can.
  bool CanRun() {
    std::map<std::pair<ActionKind, int>, bool> done;
    size_t next[2] = {0, 0};
    const std::vector<Overlap::Part>* lanes[2] = {&overlap_.compute, &overlap_.network};
    for (bool moved = true; moved;) {
      moved = false;
      for (int lane = 0; lane < 2; ++lane) {
        if (next[lane] == lanes[lane]->size()) continue;
        const Overlap::Part& part = (*lanes[lane])[next[lane]];
        const auto before = Before(part.of, PartIndex(part.name));
        if (before && !done[*before]) continue;
        done[{part.of, PartIndex(part.name)}] = true;
        ++next[lane];
        moved = true;
      }
    }
    for (int lane = 0; lane < 2; ++lane) {
      if (next[lane] == lanes[lane]->size()) continue;
      const Overlap::Part& part = (*lanes[lane])[next[lane]];
      const auto [kind, index] = *Before(part.of, PartIndex(part.name));
      const std::string name = absl::StrCat(PrintedKind(part.of), ".", part.name);
      return Bad(part.span, absl::StrCat(name, " can never run: it needs ", PrintedKind(kind), ".",
                                         kParts[index].name,
                                         ", which comes after it or waits for "
                                         "what does"));
    }
    return true;
  }

  const ast::Overlap& written_;
  Diagnostics* diagnostics_;
  Overlap overlap_;
  std::map<std::pair<ActionKind, int>, Span> places_;
};

}  // namespace

std::optional<Overlap> ResolveOverlap(const ast::Overlap& written, Diagnostics* diagnostics) {
  return OverlapReader(written, diagnostics).Read();
}

}  // namespace stringline
