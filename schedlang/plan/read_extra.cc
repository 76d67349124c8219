// A plan's lines between its stages and its ranks: a function reads each kind, from the words of
// the line, and says whether they are right.
#include "schedlang/plan/read_extra.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

constexpr int64_t kMostLayers = 1 << 20;
// A stage of a searched split takes what its layers take together.
constexpr int64_t kMostCost = int64_t{1'000'000'000} * 4096;
constexpr int64_t kMostReached = 1'000'000'000'000'000'000;

std::optional<ActionKind> ReadLetter(absl::string_view text) {
  for (int k = 0; k < kOrderedKinds; ++k) {
    if (text == PrintedKind(static_cast<ActionKind>(k))) return static_cast<ActionKind>(k);
  }
  return std::nullopt;
}

// split even | balanced | layers 3 4 4 | layout Ett tt ttL
bool ReadSplit(const std::vector<Word>& words, Split* split) {
  if (words.size() < 2) return false;
  split->span = words[0].span;
  if (words[1].text == "even" || words[1].text == "balanced") {
    split->kind = words[1].text == "even" ? Split::Kind::kEven : Split::Kind::kBalanced;
    return words.size() == 2;
  }
  if (words[1].text != "layers" && words[1].text != "layout") return false;
  split->kind = words[1].text == "layers" ? Split::Kind::kLayers : Split::Kind::kLayout;
  for (size_t i = 2; i < words.size(); ++i) {
    if (split->kind == Split::Kind::kLayout) {
      split->layout.emplace_back(words[i].text == "-" ? "" : words[i].text);
      continue;
    }
    const auto layers = ReadNumber(words[i].text, kMostLayers);
    if (!layers) return false;
    split->layers.push_back(static_cast<int>(*layers));
  }
  return words.size() > 2;
}

// recompute 1 0
bool ReadRecompute(const std::vector<Word>& words, Plan* plan) {
  if (words.size() != plan->stages.size() + 1 || !plan->recompute.empty()) return false;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].text != "0" && words[i].text != "1") return false;
    plan->recompute.push_back(words[i].text == "1" ? 1 : 0);
  }
  return std::count(plan->recompute.begin(), plan->recompute.end(), 1) > 0;
}

// ahead 2
bool ReadAhead(const std::vector<Word>& words, Plan* plan) {
  if (words.size() != 2 || plan->gathers_ahead != 1) return false;
  const auto stages = ReadNumber(words[1].text, kMostStagesAhead);
  if (stages) plan->gathers_ahead = static_cast<int>(*stages);
  return stages && *stages != 1;
}

// window 4 slack 2
bool ReadWindow(const std::vector<Word>& words, Plan* plan) {
  if (words.size() != 4 || words[2].text != "slack" || plan->window > 0) return false;
  const auto window = ReadNumber(words[1].text, kMostWindow);
  const auto slack = ReadNumber(words[3].text, kMostSlack);
  if (!window || !slack) return false;
  plan->window = static_cast<int>(*window);
  plan->slack = static_cast<int>(*slack);
  return plan->window > 0;
}

// chunks 2
bool ReadChunks(const std::vector<Word>& words, Plan* plan) {
  if (words.size() != 2 || plan->chunks > 1) return false;
  const auto chunks = ReadNumber(words[1].text, kMostChunks);
  if (chunks) plan->chunks = static_cast<int>(*chunks);
  return chunks && *chunks > 1;
}

// F.attn, 2.attn or 2.W.attn
bool ReadOverlapPart(const Word& word, const std::vector<ActionKind>& kinds, Overlap::Part* part) {
  std::vector<std::string> pieces = absl::StrSplit(word.text, '.');
  part->span = word.span;
  part->name = std::string(ShortNameOfWord(pieces.back()));
  pieces.pop_back();
  if (!pieces.empty() && absl::ascii_isdigit(pieces[0].empty() ? '.' : pieces[0][0])) {
    part->place = PlaceOfMember(pieces[0], kinds.size());
    if (part->place < static_cast<int>(kinds.size())) part->of = kinds[part->place];
    pieces.erase(pieces.begin());
    if (pieces.empty()) return true;
  }
  if (pieces.size() != 1) return false;
  const auto of = ReadLetter(pieces[0]);
  if (of) part->of = *of;
  return of.has_value();
}

// overlap F&B compute F.attn … network F.dispatch …
bool ReadOverlap(const std::vector<Word>& words, Overlap* overlap) {
  if (words.size() != 2 && words.size() < 4) return false;
  overlap->span = words[0].span;
  overlap->by_default = words.size() == 2;
  uint32_t begin = words[1].span.begin;
  for (absl::string_view letter : absl::StrSplit(words[1].text, '&')) {
    const auto kind = ReadLetter(letter);
    if (!kind) return false;
    overlap->kinds.push_back(*kind);
    overlap->kind_spans.push_back({begin, begin + 1});
    begin += 2;
  }
  std::vector<Overlap::Part>* lane = nullptr;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i].text == "compute" || words[i].text == "network") {
      lane = words[i].text == "compute" ? &overlap->compute : &overlap->network;
      continue;
    }
    if (lane == nullptr || !ReadOverlapPart(words[i], overlap->kinds, &lane->emplace_back())) {
      return false;
    }
  }
  FindPlaces(overlap);
  return true;
}

// "3", or "[3,4]" with a value for each of so many.
std::optional<std::vector<int64_t>> ReadCostsOfEach(absl::string_view text, size_t count,
                                                    int64_t least) {
  const bool list = absl::ConsumePrefix(&text, "[");
  if (list != absl::ConsumeSuffix(&text, "]")) return std::nullopt;
  std::vector<int64_t> costs;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    const bool negative = absl::ConsumePrefix(&word, "-");
    const auto size = ReadNumber(word, kMostCost);
    if (!size) return std::nullopt;
    costs.push_back(negative ? -*size : *size);
    if (costs.back() < least) return std::nullopt;
  }
  if (costs.size() != (list ? count : 1)) return std::nullopt;
  return costs;
}

// The list that a key of the line gives, and the least that may stand in it; null for no key.
struct CostList {
  std::vector<int64_t>* values = nullptr;
  int64_t least = 1;
};
CostList ListOf(absl::string_view key, OrderCosts* costs) {
  if (key == "microbatch") return {&costs->microbatches};
  if (key == "F&B") return {&costs->beside_backward.takes};
  if (key == "F&I") return {&costs->beside_input.takes};
  constexpr int64_t kAny = -kMostCost;  // a pair may also take longer than its actions in a row
  if (key == "F&B.saves") return {&costs->beside_backward.saves, kAny};
  if (key == "F&I.saves") return {&costs->beside_input.saves, kAny};
  const auto kind = ReadLetter(key);
  if (!kind) return {};
  return {&costs->actions[static_cast<size_t>(*kind)]};
}

// costs F=1 B=[2,3] F&B=2 p2p=1
bool ReadCosts(const std::vector<Word>& words, const Plan& plan, OrderCosts* costs) {
  const size_t stages =
      plan.pipes.empty() ? plan.stages.size() : static_cast<size_t>(plan.pipes[0].stages);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(words[i].text, absl::MaxSplits('=', 1));
    if (parts.first == "p2p") {
      const auto p2p = ReadNumber(parts.second, kMostCost);
      if (!p2p) return false;
      costs->p2p = *p2p;
      continue;
    }
    const CostList list = ListOf(parts.first, costs);
    if (list.values == nullptr || !list.values->empty()) return false;
    const bool of_microbatches = parts.first == "microbatch";
    const auto in_step = static_cast<size_t>(plan.microbatches_in_step());
    const auto values =
        ReadCostsOfEach(parts.second, of_microbatches ? in_step : stages, list.least);
    if (!values || (of_microbatches && values->size() != in_step)) return false;
    *list.values = *values;
  }
  const auto is_one = [](const OrderCosts::Pair& pair) {
    return pair.takes.empty() || pair.saves.empty();
  };
  return !costs->empty() && is_one(costs->beside_backward) && is_one(costs->beside_input);
}

// search makespan=22 bound=21
bool ReadSearched(const std::vector<Word>& words, Searched* searched) {
  if (words.size() != 3) return false;
  const std::pair<std::string, absl::string_view> reached =
      absl::StrSplit(words[1].text, absl::MaxSplits('=', 1));
  absl::string_view rest = words[2].text;
  if (!absl::ConsumePrefix(&rest, "bound=")) return false;
  const auto value = ReadNumber(reached.second, kMostReached);
  const auto bound = ReadNumber(rest, kMostReached);
  const bool known =
      reached.first == "makespan" || reached.first == "span" || reached.first == "period";
  if (!known || !value || !bound || *bound > *value) return false;
  *searched = {reached.first, *value, *bound};
  return true;
}

}  // namespace

bool ReadExtra(const std::vector<Word>& words, Plan* plan) {
  if (words[0].text == "split") return ReadSplit(words, &plan->split);
  if (words[0].text == "recompute") return ReadRecompute(words, plan);
  if (words[0].text == "overlap") return ReadOverlap(words, &plan->overlaps.emplace_back());
  if (words[0].text == "chunks") return ReadChunks(words, plan);
  if (words[0].text == "ahead") return ReadAhead(words, plan);
  if (words[0].text == "window") return ReadWindow(words, plan);
  if (words[0].text == "search") return ReadSearched(words, &plan->searched);
  return words[0].text == "costs" && ReadCosts(words, *plan, &plan->costs);
}

}  // namespace stringline
