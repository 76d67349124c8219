// First the names are checked. Then both lanes run side by side for one layer of every action until
// neither can go on. An order that ends there ends in every layer (group_order).
#include "schedlang/plan/check_overlap.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/plan/group_order.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

// A part of an action of the group, by the action's place.
struct PartOfMember {
  int place;
  Part part;
};

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
      : overlap_(overlap), diagnostics_(diagnostics), named_(overlap.kinds.size()) {
    Forget();
  }

  bool Run(absl::Span<const Overlap> others) {
    if (!IsGroup()) return false;
    if (overlap_.by_default) return IsNew(others);
    return IsLane(Lane::kCompute) && IsLane(Lane::kNetwork) && IsComplete() && AddsInOrder() &&
           CanRun() && IsNew(others);
  }

 private:
  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadOverlap, span, std::move(text));
    return false;
  }

  void Forget() {
    for (auto& row : named_) row.fill(false);
  }
  ActionKind KindAt(int place) const { return overlap_.kinds[static_cast<size_t>(place)]; }
  int Performers(ActionKind letter) const {
    return static_cast<int>(
        std::count_if(overlap_.kinds.begin(), overlap_.kinds.end(),
                      [letter](ActionKind kind) { return Performs(kind, letter); }));
  }
  bool& Named(const PartOfMember& of) { return named_[static_cast<size_t>(of.place)][of.part]; }
  // The letter of the action's part: a B has those of an I, as B, and those of a W.
  ActionKind LetterOf(const PartOfMember& of) const {
    const ActionKind kind = RowOfPart(of.part).of;
    return kind == ActionKind::kInputGradient ? KindAt(of.place) : kind;
  }
  std::string NameOf(const PartOfMember& of) const {
    return Print(overlap_, {LetterOf(of), std::string(ShortName(of.part)), {}, of.place});
  }
  PartOfMember Resolved(const Overlap::Part& named) const {
    return {named.place, *FindPart(named.of, named.name)};
  }
  const std::vector<Overlap::Part>& PartsOf(Lane lane) const {
    return lane == Lane::kCompute ? overlap_.compute : overlap_.network;
  }

  bool IsGroup() {
    if (overlap_.kinds.size() > 1) return true;
    return Bad(overlap_.kind_spans[0], "an overlap of one action; join two or more by '&'");
  }

  bool IsLane(Lane lane) {
    for (const Overlap::Part& named : PartsOf(lane)) {
      if (named.place >= static_cast<int>(overlap_.kinds.size())) {
        return Bad(named.span,
                   absl::StrCat("the actions of this group are 1 to ", overlap_.kinds.size()));
      }
      const std::string whole = Print(overlap_, named);
      const std::optional<Part> any = FindPart(ActionKind::kForward, named.name);
      if (!any || RowOfPart(*any).once) {
        const auto size = static_cast<uint32_t>(named.name.size());
        return Bad({named.span.end - size, named.span.end},
                   any ? absl::StrCat("'", named.name, "' is not named here: a backward begins ",
                                      "with it and a forward ends with it")
                       : absl::StrCat("a stage has no part '", named.name, "'; it has ",
                                      LayerPartNames()));
      }
      const int performers = Performers(named.of);
      if (named.place < 0 && performers > 1) {
        return Bad(named.span,
                   absl::StrCat(performers, " actions of the group have ", whole,
                                "; write the place of the action, from 1: ", ExampleOf(named)));
      }
      const std::optional<Part> part = FindPart(named.of, named.name);
      if (!part || named.place < 0 || !Performs(KindAt(named.place), named.of)) {
        return Bad(named.span, "the group has no " + whole);
      }
      if (LaneOf(*part) != lane) {
        return Bad(named.span, absl::StrCat(whole, " belongs to '",
                                            lane == Lane::kNetwork ? "compute" : "network", "'"));
      }
      if (std::exchange(Named({named.place, *part}), true)) {
        return Bad(named.span, whole + " a second time");
      }
    }
    return true;
  }

  // The part as it is written of the first action that has it.
  std::string ExampleOf(const Overlap::Part& named) const {
    Overlap::Part example = named;
    example.place = 0;
    while (!Performs(KindAt(example.place), named.of)) ++example.place;
    return Print(overlap_, example);
  }

  bool IsComplete() {
    for (int place = 0; place < static_cast<int>(overlap_.kinds.size()); ++place) {
      for (int p = 0; p < kParts; ++p) {
        const PartOfMember of = {place, static_cast<Part>(p)};
        if (RowOfPart(p).once || !HasPart(of) || Named(of)) continue;
        return Bad(overlap_.span, NameOf(of) + " is missing");
      }
    }
    return true;
  }

  // Gradients of parameters are added up in the order of the actions.
  bool AddsInOrder() {
    for (size_t k = 0; k < overlap_.compute.size(); ++k) {
      const PartOfMember later = Resolved(overlap_.compute[k]);
      if (!AddsGradients(later.part)) continue;
      for (size_t j = k + 1; j < overlap_.compute.size(); ++j) {
        const PartOfMember earlier = Resolved(overlap_.compute[j]);
        if (earlier.part != later.part || earlier.place > later.place) continue;
        return Bad(overlap_.compute[j].span,
                   absl::StrCat(NameOf(earlier), " after ", NameOf(later),
                                ": gradients are added up in the order of the actions"));
      }
    }
    return true;
  }

  bool HasPart(const PartOfMember& of) const { return RunsPart(KindAt(of.place), of.part); }

  // The part of this layer that must run first; none for the first part of a chain, and for a W
  // alone.
  std::optional<PartOfMember> PartBeforeOf(const PartOfMember& of) const {
    const PartRow& row = RowOfPart(of.part);
    const PartOfMember before = {of.place, row.after};
    if (row.where != After::kSameLayer || !HasPart(before)) return std::nullopt;
    return before;
  }

  // Runs both lanes until neither can go on.
  bool CanRun() {
    Forget();  // from here on: has run
    size_t next[2] = {0, 0};
    const auto stuck = [&](Lane lane) -> std::optional<PartOfMember> {
      const Overlap::Part& named = PartsOf(lane)[next[static_cast<int>(lane)]];
      const auto before = PartBeforeOf(Resolved(named));
      return before && !Named(*before) ? before : std::nullopt;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
        size_t& at = next[static_cast<int>(lane)];
        if (at == PartsOf(lane).size() || stuck(lane)) continue;
        Named(Resolved(PartsOf(lane)[at++])) = true;
        moved = true;
      }
    }
    for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
      if (next[static_cast<int>(lane)] == PartsOf(lane).size()) continue;
      const Overlap::Part& named = PartsOf(lane)[next[static_cast<int>(lane)]];
      return Bad(named.span, absl::StrCat(Print(overlap_, named), " can never run: it needs ",
                                          NameOf(*stuck(lane)),
                                          ", which comes after it or waits for what does"));
    }
    return true;
  }

  bool IsNew(absl::Span<const Overlap> others) {
    for (const Overlap& other : others) {
      if (!SameGroup(other.kinds, overlap_.kinds)) continue;
      diagnostics_->Add(Code::kRedefined, overlap_.span, "a second 'overlap' of the same actions")
          .notes.push_back({other.span, "the first one is here", ""});
      return false;
    }
    return true;
  }

  const Overlap& overlap_;
  Diagnostics* diagnostics_;
  std::vector<std::array<bool, kParts>> named_;  // by the action's place, then part
};

}  // namespace

int PlaceOfMember(absl::string_view written, size_t members) {
  size_t place = 0;
  const bool is_place = absl::SimpleAtoi(written, &place) && place >= 1 && place <= members;
  return static_cast<int>(is_place ? place - 1 : members);
}

void FindPlaces(Overlap* overlap) {
  for (std::vector<Overlap::Part>* const lane : {&overlap->compute, &overlap->network}) {
    for (Overlap::Part& part : *lane) {
      if (part.place >= 0) continue;
      const auto performs = [&part](ActionKind kind) { return Performs(kind, part.of); };
      const auto first = std::find_if(overlap->kinds.begin(), overlap->kinds.end(), performs);
      if (first == overlap->kinds.end()) continue;
      if (std::find_if(first + 1, overlap->kinds.end(), performs) != overlap->kinds.end()) continue;
      part.place = static_cast<int>(first - overlap->kinds.begin());
    }
  }
}

bool CheckOverlap(const Overlap& overlap, absl::Span<const Overlap> others,
                  Diagnostics* diagnostics) {
  return OverlapCheck(overlap, diagnostics).Run(others);
}

}  // namespace stringline
