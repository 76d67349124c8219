#include "schedlang/torch/torch_cells.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedlang/plan/text_form.h"

namespace stringline {
namespace {

constexpr int64_t kLargestNumber = (1 << 20) - 1;
constexpr absl::string_view kWait = "WAIT_";

TorchCell CellAt(absl::string_view text, size_t begin, size_t end) {
  while (begin < end && absl::ascii_isspace(text[begin])) ++begin;
  while (begin < end && absl::ascii_isspace(text[end - 1])) --end;
  return {text.substr(begin, end - begin),
          {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}};
}

// The number of leading digits.
size_t Digits(absl::string_view text) {
  size_t n = 0;
  while (n < text.size() && absl::ascii_isdigit(text[n])) ++n;
  return n;
}

size_t Letters(absl::string_view text) {
  size_t n = 0;
  while (n < text.size() && (absl::ascii_isupper(text[n]) || text[n] == '_')) ++n;
  return n;
}

bool ReadKind(absl::string_view word, bool legacy, TorchAction* action) {
  if (legacy && (word == "B" || word == "BW")) {
    action->kind = word == "B" ? ActionKind::kInputGradient : ActionKind::kBackward;
    return true;
  }
  action->wait = absl::ConsumePrefix(&word, kWait);
  for (int k = 0; k < kActionKinds; ++k) {
    action->kind = static_cast<ActionKind>(k);
    if (action->kind == ActionKind::kRecompute || action->kind == ActionKind::kUpdate ||
        IsCopy(action->kind)) {
      continue;
    }
    if (word == PrintedKind(action->kind)) {
      return !action->wait || IsSend(action->kind) || action->kind == ActionKind::kReduceGrad;
    }
  }
  return false;
}

std::string UnknownKind(absl::string_view kind) {
  if (kind.empty()) return "expected an action like 3F7";
  if (kind == "OVERLAP_F_B") {
    return "'OVERLAP_F_B' stands behind its two parts, as in (0F7;7B3)OVERLAP_F_B";
  }
  return absl::StrCat("torch has no action '", kind, "'");
}

}  // namespace

std::vector<std::vector<TorchCell>> TorchRows(const Source& source) {
  std::vector<std::vector<TorchCell>> rows;
  const absl::string_view text = source.text();
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    rows.emplace_back();
    for (size_t begin = line; begin <= end;) {
      const size_t comma = std::min(text.find(',', begin), end);
      rows.back().push_back(CellAt(text, begin, comma));
      begin = comma + 1;
    }
    line = end + 1;
  }
  return rows;
}

absl::string_view TorchKindOf(absl::string_view text) {
  text.remove_prefix(Digits(text));
  return text.substr(0, Letters(text));
}

std::optional<TorchAction> ReadTorchAction(absl::string_view text, bool legacy,
                                           std::string* fault) {
  const auto fail = [fault](std::string what) {
    *fault = std::move(what);
    return std::nullopt;
  };
  TorchAction action;
  absl::string_view rest = text;
  const absl::string_view stage = rest.substr(0, Digits(rest));
  rest.remove_prefix(stage.size());
  const absl::string_view kind = rest.substr(0, Letters(rest));
  rest.remove_prefix(kind.size());
  const absl::string_view microbatch = rest.substr(0, Digits(rest));
  rest.remove_prefix(microbatch.size());

  if (!ReadKind(kind, legacy, &action)) return fail(UnknownKind(kind));
  if (stage.empty()) return fail(absl::StrCat("'", text, "' lacks its stage"));
  if (!rest.empty()) {
    const absl::string_view read = text.substr(0, text.size() - rest.size());
    return fail(absl::StrCat("'", rest, "' behind ", read, "; torch would skip it silently"));
  }
  if (IsCollective(action.kind)) {
    if (!microbatch.empty())
      return fail(absl::StrCat("'", text, "': ", kind, " has no microbatch"));
  } else if (microbatch.empty()) {
    return fail(absl::StrCat("'", text, "' lacks its microbatch"));
  } else {
    const auto number = ReadNumber(microbatch, kLargestNumber);
    if (!number) return fail(absl::StrCat("microbatch ", microbatch, " is over a million"));
    action.microbatch = MicrobatchId(static_cast<int32_t>(*number));
  }
  const auto number = ReadNumber(stage, kLargestNumber);
  if (!number) return fail(absl::StrCat("stage ", stage, " is over a million"));
  action.stage = StageId(static_cast<int32_t>(*number));
  return action;
}

}  // namespace stringline
