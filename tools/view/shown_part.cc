#include "tools/view/shown_part.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// "0..200ms" has the ends 0 and 200ms; "3" has 3 as both.
struct Ends {
  std::string first;
  std::string last;
};

Ends EndsOf(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {text, text};
  return {text.substr(0, dots), text.substr(dots + 2)};
}

absl::Status NotLike(const char* field, const std::string& text, const char* example) {
  return FieldError(field,
                    absl::StrCat("'", text, "' is not like ", example, ", the smaller one first"));
}

absl::Status ParseNumbers(const char* field, const std::string& text, const char* example,
                          int64_t* first, int64_t* last) {
  if (text.empty()) return absl::OkStatus();
  const Ends ends = EndsOf(text);
  if (absl::SimpleAtoi(ends.first, first) && absl::SimpleAtoi(ends.last, last) && *first >= 0 &&
      *first <= *last) {
    return absl::OkStatus();
  }
  return NotLike(field, text, example);
}

absl::Status ParseTimes(const std::string& text, ShownPart* part) {
  if (text.empty()) return absl::OkStatus();
  constexpr const char* kExample = "0..200ms";
  Ends ends = EndsOf(text);
  const size_t unit = ends.last.find_last_of("0123456789.") + 1;
  if (!ends.first.empty() && absl::ascii_isdigit(ends.first.back())) {
    ends.first += ends.last.substr(unit);
  }
  const auto from_ns = ParseInUnit(CostUnit::kTime, ends.first);
  const auto to_ns = ParseWithUnit(CostUnit::kTime, ends.last);
  if (!from_ns.ok() || !to_ns.ok() || *from_ns < 0 || *from_ns >= *to_ns) {
    return NotLike("time", text, kExample);
  }
  part->from_ns = *from_ns;
  part->to_ns = *to_ns;
  return absl::OkStatus();
}

int64_t MicrobatchesOf(const Timeline& timeline) {
  int64_t count = 0;
  for (const Event& event : timeline.events) {
    if (!IsCompute(event.kind)) continue;
    count = std::max<int64_t>(count, MicrobatchOfStep(timeline, event) + 1);
  }
  return count;
}

int64_t EndOf(const Timeline& timeline) {
  int64_t end_ns = 0;
  for (const Event& event : timeline.events) end_ns = std::max(end_ns, event.end_ns);
  return end_ns;
}

absl::Status CheckNumbers(const char* field, const char* what, int64_t last, int64_t count) {
  if (last < count) return absl::OkStatus();
  return FieldError(field, absl::StrCat("there is no ", what, " ", last, "; the step has ", count,
                                        ", from 0 on"));
}

std::string Range(const char* one, const char* several, int64_t first, int64_t last) {
  return first == last ? absl::StrCat(one, " ", first)
                       : absl::StrCat(several, " ", first, " to ", last);
}

}  // namespace

bool ShownPart::ShowsRank(int64_t rank) const {
  return rank >= first_rank && (last_rank == kToTheEnd || rank <= last_rank);
}

bool ShownPart::ShowsMicrobatch(int64_t microbatch) const {
  return microbatch >= first_microbatch &&
         (last_microbatch == kToTheEnd || microbatch <= last_microbatch);
}

int64_t ShownPart::LengthIn(int64_t step_ns) const {
  const int64_t to = to_ns == kToTheEnd ? step_ns : std::min(to_ns, step_ns);
  return std::max<int64_t>(0, to - from_ns);
}

absl::StatusOr<ShownPart> ParseShownPart(const std::string& ranks, const std::string& time,
                                         const std::string& microbatches) {
  ShownPart part;
  SL_RETURN_IF_ERROR(ParseNumbers("ranks", ranks, "0..15 or 3", &part.first_rank, &part.last_rank));
  SL_RETURN_IF_ERROR(ParseTimes(time, &part));
  SL_RETURN_IF_ERROR(ParseNumbers("microbatches", microbatches, "0..7 or 3", &part.first_microbatch,
                                  &part.last_microbatch));
  return part;
}

absl::Status CheckShownPart(const ShownPart& part, const Timeline& timeline) {
  SL_RETURN_IF_ERROR(CheckNumbers("ranks", "rank", part.last_rank, timeline.ranks()));
  if (part.CutsMicrobatches()) {
    SL_RETURN_IF_ERROR(
        CheckNumbers("microbatches", "microbatch", part.last_microbatch, MicrobatchesOf(timeline)));
  }
  const int64_t end_ns = EndOf(timeline);
  if (part.from_ns == 0 || part.from_ns < end_ns) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--time: the step ends at ", PrintTime(end_ns),
                                                 ", and nothing is at ", PrintTime(part.from_ns)));
}

Timeline Crop(const Timeline& timeline, int first, int last, const ShownPart& part) {
  Timeline cropped;
  cropped.origin = timeline.origin;
  cropped.schedule = timeline.schedule;
  cropped.parameters = timeline.parameters;
  cropped.pipes = timeline.pipes;
  cropped.rows = timeline.rows;
  cropped.slices = timeline.slices;
  cropped.forward_only = timeline.forward_only;
  cropped.layout = timeline.layout;
  const int64_t to_ns = part.from_ns + part.LengthIn(EndOf(timeline));
  for (int row = first; row <= last; ++row) {
    for (Event event : timeline.of(RankId(row))) {
      const bool is_inside = event.start_ns == event.end_ns
                                 ? event.start_ns >= part.from_ns && event.start_ns <= to_ns
                                 : event.start_ns < to_ns && event.end_ns > part.from_ns;
      if (!is_inside) continue;
      event.start_ns = std::max(event.start_ns, part.from_ns) - part.from_ns;
      event.end_ns = std::min(event.end_ns, to_ns) - part.from_ns;
      cropped.events.push_back(event);
    }
    cropped.first.push_back(static_cast<uint32_t>(cropped.events.size()));
  }
  return cropped;
}

std::string WordsOf(const ShownPart& part, const Timeline& timeline) {
  std::vector<std::string> words;
  if (part.CutsRanks()) words.push_back(Range("rank", "ranks", part.first_rank, part.last_rank));
  if (part.CutsTime()) {
    const int64_t to_ns = part.from_ns + part.LengthIn(EndOf(timeline));
    words.push_back(absl::StrCat(PrintTime(part.from_ns), " to ", PrintTime(to_ns)));
  }
  if (part.CutsMicrobatches()) {
    words.push_back(
        Range("microbatch", "microbatches", part.first_microbatch, part.last_microbatch));
  }
  return words.empty() ? "" : absl::StrCat("shown: ", absl::StrJoin(words, ", "), " of the step");
}

}  // namespace stringline
