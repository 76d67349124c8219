// First the names are checked. Then both lanes run side by side for one pair of layers until
// neither can go on. An order that ends there ends in every pair of layers (pair_order).
#include "schedlang/plan/check_overlap.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

// A part of an action of the group: a B and an I have the same parts.
struct PartOfKind {
  ActionKind kind;
  Part part;
};

std::string NameOf(const PartOfKind& part) {
  return absl::StrCat(PrintedKind(part.kind), ".", ShortName(part.part));
}

// "attn, dispatch, experts and combine"
std::string LayerPartNames() {
  std::string text;
  int left = 4;
  for (const Part part : {kFAttn, kFDispatch, kFExperts, kFCombine}) {
    absl::StrAppend(&text, ShortName(part), --left > 1 ? ", " : left == 1 ? " and " : "");
  }
  return text;
}

class OverlapCheck {
 public:
  OverlapCheck(const Overlap& overlap, Diagnostics* diagnostics)
      : overlap_(overlap), diagnostics_(diagnostics) {
    for (auto& row : named_) row.fill(false);
  }

  bool Run(absl::Span<const Overlap> others) {
    return KindsDiffer() && IsLane(Lane::kCompute) && IsLane(Lane::kNetwork) && IsComplete() &&
           CanRun() && IsNew(others);
  }

 private:
  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadOverlap, span, std::move(text));
    return false;
  }

  bool Has(ActionKind kind) const {
    return std::count(overlap_.kinds.begin(), overlap_.kinds.end(), kind) > 0;
  }
  // True if the group runs parts of that kind: a B includes its weight gradients, as W.
  bool Runs(ActionKind kind) const {
    return Has(kind) || (kind == ActionKind::kWeightGradient && Has(ActionKind::kBackward));
  }

  bool& Named(const PartOfKind& part) { return named_[static_cast<int>(part.kind)][part.part]; }
  const std::vector<Overlap::Part>& PartsOf(Lane lane) const {
    return lane == Lane::kCompute ? overlap_.compute : overlap_.network;
  }

  bool KindsDiffer() {
    const std::vector<ActionKind>& kinds = overlap_.kinds;
    if (kinds.size() < 2) {
      return Bad(overlap_.kind_spans[0], "an overlap of one action; join two or more by '&'");
    }
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (std::count(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(i), kinds[i]) > 0) {
        return Bad(overlap_.kind_spans[i],
                   absl::StrCat("'", PrintedKind(kinds[i]),
                                "' twice: their parts could not be told apart"));
      }
    }
    return true;
  }

  bool IsLane(Lane lane) {
    for (const Overlap::Part& named : PartsOf(lane)) {
      const std::string whole = absl::StrCat(PrintedKind(named.of), ".", named.name);
      const std::optional<Part> any = FindPart(ActionKind::kForward, named.name);
      if (!any || RowOfPart(*any).once) {
        const auto size = static_cast<uint32_t>(named.name.size());
        return Bad({named.span.end - size, named.span.end},
                   any ? absl::StrCat("'", named.name, "' is not named here: a backward begins ",
                                      "with it and a forward ends with it")
                       : absl::StrCat("a stage has no part '", named.name, "'; it has ",
                                      LayerPartNames()));
      }
      const std::optional<Part> part = FindPart(named.of, named.name);
      if (!part || !Runs(named.of)) return Bad(named.span, "the group has no " + whole);
      if (LaneOf(*part) != lane) {
        return Bad(named.span, absl::StrCat(whole, " belongs to '",
                                            lane == Lane::kNetwork ? "compute" : "network", "'"));
      }
      if (std::exchange(Named({named.of, *part}), true)) {
        return Bad(named.span, whole + " a second time");
      }
    }
    return true;
  }

  bool IsComplete() {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
      for (int p = 0; p < kParts && Runs(kind); ++p) {
        const auto part = static_cast<Part>(p);
        if (RowOfPart(p).once || FindPart(kind, ShortName(p)) != part) continue;
        if (!Named({kind, part})) return Bad(overlap_.span, NameOf({kind, part}) + " is missing");
      }
    }
    return true;
  }

  // The part of this pair of layers that must run first; none for the first part of a chain.
  std::optional<PartOfKind> PartsBefore(const PartOfKind& part) const {
    const PartRow& row = RowOfPart(part.part);
    if (row.where != After::kSameLayer) return std::nullopt;
    if (part.kind != ActionKind::kWeightGradient) return PartOfKind{part.kind, row.after};
    for (const ActionKind gives : {ActionKind::kBackward, ActionKind::kInputGradient}) {
      if (Has(gives)) return PartOfKind{gives, row.after};
    }
    return std::nullopt;
  }

  // Runs both lanes until neither can go on.
  bool CanRun() {
    for (auto& row : named_) row.fill(false);  // from here on: has run
    size_t next[2] = {0, 0};
    const auto stuck = [&](Lane lane) -> std::optional<PartOfKind> {
      const Overlap::Part& named = PartsOf(lane)[next[static_cast<int>(lane)]];
      const auto before = PartsBefore({named.of, *FindPart(named.of, named.name)});
      return before && !Named(*before) ? before : std::nullopt;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
        size_t& at = next[static_cast<int>(lane)];
        if (at == PartsOf(lane).size() || stuck(lane)) continue;
        const Overlap::Part& named = PartsOf(lane)[at++];
        Named({named.of, *FindPart(named.of, named.name)}) = true;
        moved = true;
      }
    }
    for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
      if (next[static_cast<int>(lane)] == PartsOf(lane).size()) continue;
      const Overlap::Part& named = PartsOf(lane)[next[static_cast<int>(lane)]];
      return Bad(named.span, absl::StrCat(PrintedKind(named.of), ".", named.name,
                                          " can never run: it needs ", NameOf(*stuck(lane)),
                                          ", which comes after it or waits for what does"));
    }
    return true;
  }

  bool IsNew(absl::Span<const Overlap> others) {
    for (const Overlap& other : others) {
      if (!std::is_permutation(other.kinds.begin(), other.kinds.end(), overlap_.kinds.begin(),
                               overlap_.kinds.end())) {
        continue;
      }
      diagnostics_->Add(Code::kRedefined, overlap_.span, "a second 'overlap' of the same actions")
          .notes.push_back({other.span, "the first one is here", ""});
      return false;
    }
    return true;
  }

  const Overlap& overlap_;
  Diagnostics* diagnostics_;
  std::array<std::array<bool, kParts>, 4> named_;  // by kind, then part
};

}  // namespace

bool CheckOverlap(const Overlap& overlap, absl::Span<const Overlap> others,
                  Diagnostics* diagnostics) {
  return OverlapCheck(overlap, diagnostics).Run(others);
}

}  // namespace stringline
