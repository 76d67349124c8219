#include "schedlang/elaborate/overlap.h"

#include "schedlang/parts/check_overlap.h"

namespace stringline {
namespace {

ActionKind KindAsWritten(const ast::Name& letter) {
  constexpr absl::string_view kLetters = "FBIW";
  return static_cast<ActionKind>(kLetters.find(letter.text[0]));
}

std::vector<Overlap::Part> LaneAsWritten(const std::vector<ast::Overlap::Part>& parts) {
  std::vector<Overlap::Part> lane;
  for (const auto& [letter, name] : parts) {
    lane.push_back({KindAsWritten(letter), name.text, {letter.span.begin, name.span.end}});
  }
  return lane;
}

}  // namespace

std::optional<Overlap> ResolveOverlap(const ast::Overlap& written, absl::Span<const Overlap> others,
                                      Diagnostics* diagnostics) {
  Overlap overlap;
  overlap.span = written.span;
  for (const ast::Name& letter : written.letters) {
    overlap.kinds.push_back(KindAsWritten(letter));
    overlap.kind_spans.push_back(letter.span);
  }
  overlap.compute = LaneAsWritten(written.compute);
  overlap.network = LaneAsWritten(written.network);
  if (!CheckOverlap(overlap, others, diagnostics)) return std::nullopt;
  return overlap;
}

}  // namespace stringline
