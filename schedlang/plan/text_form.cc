#include "schedlang/plan/text_form.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stringline {
namespace {

// Cuts the digits off the front of *text: a number below 2^31.
std::optional<int32_t> CutNumber(absl::string_view* text) {
  size_t n = 0;
  while (n < text->size() && absl::ascii_isdigit((*text)[n])) ++n;
  const auto number = ReadNumber(text->substr(0, n), std::numeric_limits<int32_t>::max());
  text->remove_prefix(n);
  if (!number) return std::nullopt;
  return static_cast<int32_t>(*number);
}

// Cuts "3", or "up[3]" in a plan with pipes, off the front of *text.
std::optional<int32_t> CutStage(absl::Span<const Pipe> pipes, absl::string_view* text) {
  if (pipes.empty()) return CutNumber(text);
  const size_t bracket = text->find('[');
  for (const Pipe& pipe : pipes) {
    if (text->substr(0, bracket) != pipe.name || bracket == absl::string_view::npos) continue;
    text->remove_prefix(bracket + 1);
    const auto index = CutNumber(text);
    if (!index || *index >= pipe.stages || text->empty() || (*text)[0] != ']') break;
    text->remove_prefix(1);
    return pipe.first_stage.value + *index;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<Word>> WordLines(const Source& source) {
  std::vector<std::vector<Word>> lines(1);
  const absl::string_view text = source.text();
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (absl::ascii_isspace(text[i])) {
      if (text[i] == '\n' && !lines.back().empty()) lines.emplace_back();
      ++i;
    } else {
      size_t end = i;
      while (end < text.size() && !absl::ascii_isspace(text[end]) && text[end] != '#') ++end;
      lines.back().push_back(
          {text.substr(i, end - i), {static_cast<uint32_t>(i), static_cast<uint32_t>(end)}});
      i = end;
    }
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::optional<int64_t> ReadNumber(absl::string_view text, int64_t limit) {
  int64_t value = 0;
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
    return std::nullopt;
  }
  if (!absl::SimpleAtoi(text, &value) || value > limit) return std::nullopt;
  return value;
}

std::optional<Parameter> ReadParameter(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) return std::nullopt;
  const absl::string_view name = text.substr(0, equals);
  if (absl::ascii_isdigit(name[0])) return std::nullopt;
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_') return std::nullopt;
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text.substr(equals + 1), &value)) return std::nullopt;
  return Parameter{std::string(name), value};
}

std::optional<int64_t> ValueOf(const std::vector<Parameter>& parameters, absl::string_view name) {
  for (const Parameter& p : parameters) {
    if (p.name == name) return p.value;
  }
  return std::nullopt;
}

std::optional<int> ReadSlices(const std::vector<Word>& words) {
  const auto slices = words.size() == 2 ? ReadNumber(words[1].text, kMostSlices) : std::nullopt;
  if (!slices || *slices < 2) return std::nullopt;
  return static_cast<int>(*slices);
}

bool IsForwardOnly(const std::vector<Word>& words) {
  return words.size() == 2 && words[0].text == "forward" && words[1].text == "only";
}

std::string BadSlices() {
  return absl::StrCat("expected 'slices N' with 2 to ", kMostSlices, " slices of a microbatch");
}

bool ReadAction(absl::Span<const Pipe> pipes, const OwnRows& rows, int slices,
                absl::string_view* text, Action* action) {
  const auto stage = CutStage(pipes, text);
  size_t n = 0;
  while (n < text->size() && (absl::ascii_isupper((*text)[n]) || (*text)[n] == '_')) ++n;
  const absl::string_view kind = text->substr(0, n);
  text->remove_prefix(n);
  if (!stage) return false;
  if (const OwnAction* const own = rows.Find(kind)) {
    action->kind = own->kind;
  } else {
    int k = 0;
    while (k < kActionKinds && kind != PrintedKind(static_cast<ActionKind>(k))) ++k;
    if (k == kActionKinds) return false;
    action->kind = static_cast<ActionKind>(k);
  }
  action->stage = StageId(*stage);
  action->microbatch = MicrobatchId();
  if (IsCollective(action->kind)) return true;
  const auto microbatch = CutNumber(text);
  if (!microbatch) return false;
  action->microbatch = MicrobatchId(*microbatch);
  if (slices > 1 && IsOfMicrobatch(action->kind)) {
    if (!absl::ConsumePrefix(text, ".")) return false;
    const auto slice = CutNumber(text);
    if (!slice || *slice >= slices || *microbatch > (INT32_MAX - *slice) / slices) return false;
    action->microbatch = MicrobatchId(*microbatch * slices + *slice);
  }
  if (!IsMessage(action->kind) || !absl::ConsumePrefix(text, ">")) return true;
  const auto peer = CutNumber(text);
  if (!peer || *peer >= kMostStagesOfEdges) return false;
  action->other = static_cast<int16_t>(*peer);
  return true;
}

std::optional<std::vector<Edge>> ReadEdges(absl::Span<const Word> words, int stages) {
  std::vector<Edge> edges;
  for (const Word& word : words.subspan(1)) {
    absl::string_view text = word.text;
    const auto from = CutNumber(&text);
    if (!from || !absl::ConsumePrefix(&text, ">")) return std::nullopt;
    const auto to = CutNumber(&text);
    if (!to || !text.empty() || std::max(*from, *to) >= stages) return std::nullopt;
    edges.push_back({StageId(*from), StageId(*to)});
  }
  const auto ends = [](const Edge& edge) { return std::pair(edge.from, edge.to); };
  std::vector<Edge> sorted = edges;
  std::sort(sorted.begin(), sorted.end(),
            [&](const Edge& a, const Edge& b) { return ends(a) < ends(b); });
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [&](const Edge& a, const Edge& b) { return ends(a) == ends(b); });
  if (edges.empty() || twice != sorted.end()) return std::nullopt;
  return edges;
}

std::optional<std::vector<Skip>> ReadSkips(absl::Span<const Word> words, int stages,
                                           int microbatches) {
  std::vector<Skip> skips;
  for (const Word& word : words.subspan(1)) {
    absl::string_view text = word.text;
    const auto stage = CutNumber(&text);
    if (!stage || !absl::ConsumePrefix(&text, "@")) return std::nullopt;
    const auto microbatch = CutNumber(&text);
    if (!microbatch || !text.empty()) return std::nullopt;
    if (*stage >= stages || *microbatch >= microbatches) return std::nullopt;
    skips.push_back({StageId(*stage), *microbatch});
  }
  std::sort(skips.begin(), skips.end());
  const bool twice = std::adjacent_find(skips.begin(), skips.end()) != skips.end();
  if (skips.empty() || twice) return std::nullopt;
  return skips;
}

}  // namespace stringline
