// Print and ReadTimeline go through the same lines in the same order, and name actions as a plan
// does. Bubbles are measured in one pass over each rank's groups, which also counts live
// activations.
#include "schedlang/plan/timeline.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedlang/base/kept_memory.h"
#include "schedlang/base/threads.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/text_form.h"

namespace stringline {
namespace {

// The observed times if the file has none: the event's own times; for a message its arrival.
ObservedTimes Unsaid(ActionKind kind, int64_t start_ns, int64_t end_ns) {
  return {IsMessage(kind) ? end_ns : start_ns, end_ns};
}

// Cuts "1000+500", a start and a length, off *text.
bool ReadTimes(absl::string_view* text, bool may_be_negative, int64_t* start_ns, int64_t* end_ns) {
  int64_t numbers[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && !absl::ConsumePrefix(text, "+")) return false;
    const bool negative = i == 0 && may_be_negative && absl::ConsumePrefix(text, "-");
    const size_t n = std::min(text->find_first_not_of("0123456789"), text->size());
    const auto number = ReadNumber(text->substr(0, n), std::numeric_limits<int64_t>::max() / 4);
    if (!number) return false;
    numbers[i] = negative ? -*number : *number;
    text->remove_prefix(n);
  }
  *start_ns = numbers[0];
  *end_ns = numbers[0] + numbers[1];
  return true;
}

// Cuts ">100" off *text, a time within the event, if it begins with `mark`. False if it is none.
bool ReadWithin(absl::string_view mark, const Event& event, absl::string_view* text,
                int64_t* time_ns) {
  if (!absl::ConsumePrefix(text, mark)) return true;
  const size_t n = std::min(text->find_first_not_of("0123456789"), text->size());
  const auto number = ReadNumber(text->substr(0, n), event.end_ns - event.start_ns);
  if (!number) return false;
  *time_ns = *number;
  text->remove_prefix(n);
  return true;
}

// Cuts "3F7@1000+500~200[1020+480]" off *text: an action, its start and length, times within it,
// and the observed times if the timeline is `observed` and they differ.
bool ReadEvent(const Timeline& of, absl::string_view* text, Event* event, ObservedTimes* observed) {
  Action action;
  if (!ReadAction(of.pipes, of.rows, of.slices, text, &action)) return false;
  event->kind = action.kind;
  event->stage = action.stage;
  event->microbatch = action.microbatch;
  event->other = action.other;
  if (!absl::ConsumePrefix(text, "@")) return false;
  if (!ReadTimes(text, /*may_be_negative=*/false, &event->start_ns, &event->end_ns)) return false;
  if (!ReadWithin(">", *event, text, &event->first_bucket_ns) ||
      !ReadWithin("~", *event, text, &event->waited_ns)) {
    return false;
  }
  if (event->first_bucket_ns > 0) event->first_bucket_ns += event->start_ns;
  event->unfinished = absl::ConsumePrefix(text, "?");
  if (observed == nullptr) return true;
  *observed = Unsaid(event->kind, event->start_ns, event->end_ns);
  if (!absl::ConsumePrefix(text, "[")) return true;
  return ReadTimes(text, /*may_be_negative=*/true, &observed->start_ns, &observed->end_ns) &&
         absl::ConsumePrefix(text, "]");
}

// "parts", "3:": the rank of a line of parts.
std::optional<int64_t> ReadPartsHead(const std::vector<Word>& words, int ranks) {
  if (words.size() < 2 || words[0].text != "parts") return std::nullopt;
  absl::string_view number = words[1].text;
  if (!absl::ConsumeSuffix(&number, ":")) return std::nullopt;
  return ReadNumber(number, ranks - 1);
}

// "3F7:F.attn@1000+500": a part of an event from *at on, up to `end`.
bool ReadPart(absl::string_view text, uint32_t end, bool observed, uint32_t* at,
              Timeline* timeline) {
  const size_t colon = text.find(':'), mark = text.find('@');
  if (colon == absl::string_view::npos || mark == absl::string_view::npos || mark < colon) {
    return false;
  }
  const std::optional<LayerPart> part = ReadLayerPart(text.substr(colon + 1, mark - colon - 1));
  Event named;
  const std::string event = absl::StrCat(text.substr(0, colon), text.substr(mark));
  absl::string_view rest = event;
  ObservedTimes times;
  if (!part || !ReadEvent(*timeline, &rest, &named, observed ? &times : nullptr)) {
    return false;
  }
  for (; *at < end; ++*at) {
    const Event& e = timeline->events[*at];
    if (e.kind == named.kind && e.stage == named.stage && e.microbatch == named.microbatch) break;
  }
  if (!rest.empty() || *at == end) return false;
  timeline->parts.push_back(
      {*at, part->part, part->layer, named.start_ns, named.end_ns, part->chunk});
  if (observed) timeline->observed_parts.push_back(times);
  return true;
}

// "[1020+480]", or "" if equal to the event's own times.
std::string PrintObserved(const std::vector<ObservedTimes>& observed, size_t i, ActionKind kind,
                          int64_t start_ns, int64_t end_ns) {
  if (i >= observed.size() || observed[i] == Unsaid(kind, start_ns, end_ns)) return "";
  return absl::StrCat("[", observed[i].start_ns, "+", observed[i].end_ns - observed[i].start_ns,
                      "]");
}

void PrintParts(const Timeline& timeline, std::string* out) {
  size_t p = 0;
  for (int r = 0; r < timeline.ranks(); ++r) {
    const size_t first = p;
    for (; p < timeline.parts.size() && timeline.parts[p].event < timeline.first[r + 1]; ++p) {
      if (p == first) absl::StrAppend(out, "parts ", r, ":");
      const PartEvent& part = timeline.parts[p];
      const Event& e = timeline.events[part.event];
      absl::StrAppend(
          out, " ", PrintAction(timeline, e), ":",
          Print(LayerPart{part.part, part.layer, part.chunk}), "@", part.start_ns, "+",
          part.end_ns - part.start_ns,
          PrintObserved(timeline.observed_parts, p, e.kind, part.start_ns, part.end_ns));
    }
    if (p > first) absl::StrAppend(out, "\n");
  }
}

// "pipe down M=4 stages=4": a pipe behind those read `before`.
std::optional<Pipe> ReadPipe(const std::vector<Word>& words, const std::vector<Pipe>& before) {
  constexpr int64_t kMost = 1 << 20;
  if (words.size() != 4) return std::nullopt;
  const auto microbatches = ReadParameter(words[2].text), stages = ReadParameter(words[3].text);
  if (!microbatches || microbatches->name != "M" || !stages || stages->name != "stages") {
    return std::nullopt;
  }
  if (std::min(microbatches->value, stages->value) < 0) return std::nullopt;
  if (std::max(microbatches->value, stages->value) > kMost) return std::nullopt;
  Pipe pipe{.name = std::string(words[1].text), .first_stage = StageId(0)};
  pipe.microbatches = static_cast<int>(microbatches->value);
  pipe.stages = static_cast<int>(stages->value);
  if (before.empty()) return pipe;
  pipe.first_stage = StageId(before.back().first_stage.value + before.back().stages);
  pipe.first_microbatch = before.back().first_microbatch + before.back().microbatches;
  return pipe;
}

// The events of a word of a `rank` line, parts of a group joined by '&'.
bool ReadGroup(absl::string_view text, bool observed, Timeline* timeline) {
  for (bool joined = false;; joined = true) {
    Event event;
    ObservedTimes times;
    event.joined = joined;
    if (!ReadEvent(*timeline, &text, &event, observed ? &times : nullptr)) return false;
    timeline->events.push_back(event);
    if (observed) timeline->observed.push_back(times);
    if (text.empty()) return true;
    if (text[0] != '&') return false;
    text.remove_prefix(1);
  }
}

// A rank computes one group at a time. Returns the first event of the first group that starts
// before the end of an earlier group, or the number of events.
uint32_t FirstOverlapping(const Timeline& timeline, uint32_t begin) {
  const auto end = static_cast<uint32_t>(timeline.events.size());
  int64_t free_ns = 0;
  for (uint32_t i = begin; i < end;) {
    const uint32_t first = i;
    int64_t start_ns = timeline.events[i].start_ns, end_ns = timeline.events[i].end_ns;
    for (++i; i < end && timeline.events[i].joined; ++i) {
      start_ns = std::min(start_ns, timeline.events[i].start_ns);
      end_ns = std::max(end_ns, timeline.events[i].end_ns);
    }
    if (!IsCompute(timeline.events[first].kind)) continue;
    if (start_ns < free_ns) return first;
    free_ns = std::max(free_ns, end_ns);
  }
  return end;
}

// Whether 64 bits hold the lengths of all events and parts together, and the time of all ranks.
bool SumsFit(const Timeline& timeline) {
  double sum_ns = static_cast<double>(MakespanOf(timeline)) * timeline.ranks();
  for (const Event& event : timeline.events) {
    sum_ns += static_cast<double>(event.end_ns - event.start_ns);
  }
  for (const PartEvent& part : timeline.parts) {
    sum_ns += static_cast<double>(part.end_ns - part.start_ns);
  }
  return sum_ns < 4611686018427387904.0;  // 2^62
}

// The moments of a rank: the first start and the last end of its work, messages left out, and the
// last end of all.
struct RankExtent {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = 0;
  int64_t end_ns = 0;
};

Bubbles::Rank MeasureRank(const Timeline& timeline, absl::Span<const Event> events,
                          RankExtent* extent) {
  Bubbles::Rank rank;
  int live = 0;
  for (size_t i = 0; i < events.size();) {
    size_t end = i + 1;
    while (end < events.size() && events[end].joined) ++end;
    for (size_t k = i; k < end; ++k) extent->end_ns = std::max(extent->end_ns, events[k].end_ns);
    if (IsCollective(events[i].kind)) {
      extent->first_ns = std::min(extent->first_ns, events[i].start_ns);
      extent->last_ns = std::max(extent->last_ns, events[i].end_ns);
    }
    if (!IsCompute(events[i].kind)) {
      // The values that a D copies leave the device, and come back with its U.
      if (IsCopy(events[i].kind)) live += ActivationChange(timeline, events[i].kind);
      rank.peak_activations = std::max(rank.peak_activations, live);
      i = end;
      continue;
    }
    int64_t start_ns = events[i].start_ns, end_ns = events[i].end_ns;
    const int64_t waited_ns = events[i].waited_ns;
    int released = 0;
    for (; i < end; ++i) {
      start_ns = std::min(start_ns, events[i].start_ns);
      end_ns = std::max(end_ns, events[i].end_ns);
      const int change = ActivationChange(timeline, events[i].kind);
      (change > 0 ? live : released) += change;
    }
    rank.peak_activations = std::max(rank.peak_activations, live);
    live += released;
    rank.busy_ns += end_ns - start_ns - waited_ns;
    extent->first_ns = std::min(extent->first_ns, start_ns);
    extent->last_ns = std::max(extent->last_ns, end_ns);
  }
  return rank;
}

struct Complaint {
  Span span;
  std::string text;
};

// One rank's line `rank R: 3F7@1000+500 …`, the next of the timeline; the complaint about it, if
// any.
std::optional<Complaint> ReadRank(absl::Span<const Word> words, bool observed, Timeline* timeline) {
  const std::string head = absl::StrCat(timeline->ranks(), ":");
  if (words.size() < 2 || words[0].text != "rank" || words[1].text != head) {
    return Complaint{words[0].span, absl::StrCat("expected 'rank ", head, "'")};
  }
  const auto first = static_cast<uint32_t>(timeline->events.size());
  std::vector<uint32_t> groups;  // the first event of each word
  for (const Word& word : words.subspan(2)) {
    groups.push_back(static_cast<uint32_t>(timeline->events.size()));
    if (!ReadGroup(word.text, observed, timeline)) {
      return Complaint{word.span, "expected an event like 3F7@1000+500"};
    }
  }
  const uint32_t overlapping = FirstOverlapping(*timeline, first);
  if (overlapping < timeline->events.size()) {
    const auto at = std::find(groups.begin(), groups.end(), overlapping) - groups.begin();
    return Complaint{words[static_cast<size_t>(at) + 2].span,
                     absl::StrCat("rank ", timeline->ranks(),
                                  " still computes what stands before when this begins; a rank "
                                  "does one computation at a time")};
  }
  timeline->first.push_back(static_cast<uint32_t>(timeline->events.size()));
  return std::nullopt;
}

// The lines `parts RANK: …` behind all ranks; the complaint about the first wrong word, if any.
std::optional<Complaint> ReadAllParts(absl::Span<const std::vector<Word>> lines, bool observed,
                                      Timeline* timeline) {
  int64_t last = -1;
  for (const auto& words : lines) {
    const auto rank = ReadPartsHead(words, timeline->ranks());
    if (!rank || *rank <= last) {
      return Complaint{words[0].span, "expected 'parts RANK:', ranks in order"};
    }
    last = *rank;
    uint32_t at = timeline->first[last];
    for (size_t i = 2; i < words.size(); ++i) {
      if (!ReadPart(words[i].text, timeline->first[last + 1], observed, &at, timeline)) {
        return Complaint{words[i].span, "expected a part of an event like 3F7:F.attn@0+5"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string PrintAction(const Timeline& timeline, const Event& event) {
  return PrintAction(timeline.pipes, timeline.rows, timeline.slices, event.kind, event.stage,
                     event.microbatch, event.other);
}

Timeline TimelineOf(const Plan& plan, std::string origin, int64_t at_ns) {
  Timeline timeline;
  timeline.origin = std::move(origin);
  timeline.schedule = plan.schedule;
  timeline.parameters = plan.parameters;
  timeline.pipes = plan.pipes;
  if (!plan.WholeGraph().is_chain()) timeline.edges = plan.WholeGraph().edges();
  timeline.skips = plan.skips;
  timeline.rows = plan.rows;
  timeline.slices = plan.slices;
  timeline.forward_only = plan.forward_only;
  timeline.first = plan.first;
  ReserveOnCores(plan.actions.size(), &timeline.events);
  for (const Action& action : plan.actions) {
    timeline.events.push_back({.kind = action.kind,
                               .joined = action.joined,
                               .other = action.other,
                               .stage = action.stage,
                               .microbatch = action.microbatch,
                               .start_ns = at_ns,
                               .end_ns = at_ns});
  }
  return timeline;
}

std::string Print(const Timeline& timeline) {
  std::string out = absl::StrCat("timeline ", timeline.origin, " ", timeline.schedule);
  for (const Parameter& p : timeline.parameters) absl::StrAppend(&out, " ", p.name, "=", p.value);
  absl::StrAppend(&out, "\n");
  if (timeline.layout != CommLayout::kEdge) {
    absl::StrAppend(&out, "layout ", NameOf(timeline.layout), "\n");
  }
  if (!timeline.observed.empty()) absl::StrAppend(&out, "observed\n");
  if (timeline.slices > 1) absl::StrAppend(&out, "slices ", timeline.slices, "\n");
  if (timeline.forward_only) absl::StrAppend(&out, "forward only\n");
  absl::StrAppend(&out, Print(timeline.rows), PrintEdges(timeline.edges), Print(timeline.skips));
  for (const Pipe& p : timeline.pipes) {
    absl::StrAppend(&out, "pipe ", p.name, " M=", p.microbatches, " stages=", p.stages, "\n");
  }
  for (int r = 0; r < timeline.ranks(); ++r) {
    absl::StrAppend(&out, "rank ", r, ":");
    for (uint32_t i = timeline.first[r]; i < timeline.first[r + 1]; ++i) {
      const Event& e = timeline.events[i];
      absl::StrAppend(&out, e.joined ? "&" : " ", PrintAction(timeline, e));
      absl::StrAppend(&out, "@", e.start_ns, "+", e.end_ns - e.start_ns);
      if (e.first_bucket_ns > 0) absl::StrAppend(&out, ">", e.first_bucket_ns - e.start_ns);
      if (e.waited_ns > 0) absl::StrAppend(&out, "~", e.waited_ns);
      absl::StrAppend(&out, e.unfinished ? "?" : "",
                      PrintObserved(timeline.observed, i, e.kind, e.start_ns, e.end_ns));
    }
    absl::StrAppend(&out, "\n");
  }
  PrintParts(timeline, &out);
  return out;
}

std::optional<Timeline> ReadTimeline(const Source& source, Diagnostics* diagnostics) {
  const auto lines = WordLines(source);
  auto complain = [&](Span span, std::string text) {
    diagnostics->Add(Code::kTimelineText, span, std::move(text));
    return std::nullopt;
  };
  const auto end = static_cast<uint32_t>(source.text().size());
  if (lines.empty() || lines[0][0].text != "timeline" || lines[0].size() < 3) {
    return complain(lines.empty() ? Span{end, end} : lines[0][0].span,
                    "expected 'timeline ORIGIN SCHEDULE P=… M=…'");
  }
  Timeline timeline;
  timeline.origin = std::string(lines[0][1].text);
  timeline.schedule = std::string(lines[0][2].text);
  for (size_t i = 3; i < lines[0].size(); ++i) {
    const auto parameter = ReadParameter(lines[0][i].text);
    if (!parameter) return complain(lines[0][i].span, "expected a parameter like P=4");
    timeline.parameters.push_back(*parameter);
  }
  size_t l = 1;
  if (l < lines.size() && lines[l][0].text == "layout") {
    const auto layout = lines[l].size() == 2 ? ReadCommLayout(lines[l][1].text) : std::nullopt;
    if (!layout) {
      return complain(lines[l][0].span, "expected 'layout shared', 'pair', 'updown' or 'edge'");
    }
    timeline.layout = *layout;
    ++l;
  }
  const bool observed = l < lines.size() && lines[l].size() == 1 && lines[l][0].text == "observed";
  if (observed) ++l;
  if (l < lines.size() && lines[l][0].text == "slices") {
    const auto slices = ReadSlices(lines[l]);
    if (!slices) return complain(lines[l][0].span, BadSlices());
    timeline.slices = *slices;
    ++l;
  }
  timeline.forward_only = l < lines.size() && IsForwardOnly(lines[l]);
  if (timeline.forward_only) ++l;
  for (; l < lines.size() && BeginsRow(lines[l]); ++l) {
    if (!ReadRow(lines[l], kMostRanksOfRows, &timeline.rows)) {
      return complain(lines[l][0].span,
                      "expected 'value NAME' or 'action NAME LANE', as in a plan");
    }
  }
  if (l < lines.size() && lines[l][0].text == "edges") {
    auto edges = ReadEdges(lines[l], kMostStagesOfEdges);
    if (!edges) return complain(lines[l][0].span, "expected 'edges' and edges like 0>1");
    timeline.edges = *std::move(edges);
    ++l;
  }
  if (l < lines.size() && lines[l][0].text == "skip") {
    auto skips = ReadSkips(lines[l], kMostStagesOfEdges, 1 << 20);
    if (!skips) return complain(lines[l][0].span, "expected 'skip' and stages left out, as 2@1");
    timeline.skips = *std::move(skips);
    ++l;
  }
  for (; l < lines.size() && lines[l][0].text == "pipe"; ++l) {
    const auto pipe = ReadPipe(lines[l], timeline.pipes);
    if (!pipe) return complain(lines[l][0].span, "expected 'pipe NAME M=… stages=…'");
    timeline.pipes.push_back(*pipe);
  }
  for (; l < lines.size() && lines[l][0].text != "parts"; ++l) {
    if (const auto wrong = ReadRank(lines[l], observed, &timeline)) {
      return complain(wrong->span, wrong->text);
    }
  }
  if (timeline.ranks() == 0) return complain({end, end}, "expected 'rank 0:'");
  const auto p = ValueOf(timeline.parameters, "P");
  if (p && *p != timeline.ranks()) {
    return complain(lines[l - 1][0].span,
                    absl::StrCat("the last of ", timeline.ranks(), " ranks, and P is ", *p));
  }
  if (const auto wrong = ReadAllParts(absl::MakeConstSpan(lines).subspan(l), observed, &timeline)) {
    return complain(wrong->span, wrong->text);
  }
  if (!SumsFit(timeline)) {
    return complain(lines[0][0].span,
                    "the times of this timeline add up to more than 2^62 ns, 146 years");
  }
  return timeline;
}

std::optional<Reconstruction> ReconstructionOf(const Timeline& timeline) {
  if (timeline.observed.size() != timeline.events.size() || timeline.events.empty()) {
    return std::nullopt;
  }
  Reconstruction all;
  for (size_t i = 0; i < timeline.events.size();) {
    const size_t begin = i++;
    const Event& event = timeline.events[begin];
    if (IsMessage(event.kind)) {
      all.unseen += IsSend(event.kind) ? 1 : 0;
      continue;
    }
    int64_t start_ns = timeline.observed[begin].start_ns;
    bool ran = start_ns != timeline.observed[begin].end_ns;
    for (; i < timeline.events.size() && timeline.events[i].joined; ++i) {
      start_ns = std::min(start_ns, timeline.observed[i].start_ns);
      ran = ran || timeline.observed[i].start_ns != timeline.observed[i].end_ns;
    }
    const int64_t moved_ns = std::abs(event.start_ns - start_ns);
    if (IsCollective(event.kind) && !ran) {
      all.unseen += moved_ns > 0 ? 1 : 0;
      continue;
    }
    ++all.seen;
    all.moved += moved_ns > 0 ? 1 : 0;
    all.most_ns = std::max(all.most_ns, moved_ns);
  }
  return all;
}

int PipeOf(const Timeline& timeline, StageId stage) {
  int pipe = 0;
  for (const int pipes = static_cast<int>(timeline.pipes.size()); pipe + 1 < pipes; ++pipe) {
    const Pipe& here = timeline.pipes[pipe];
    if (stage.value < here.first_stage.value + here.stages) break;
  }
  return pipe;
}

int MicrobatchOf(const Timeline& timeline, const Event& event) {
  return event.microbatch.value / (IsOfMicrobatch(event.kind) ? timeline.slices : 1);
}

int MicrobatchOfStep(const Timeline& timeline, const Event& event) {
  const int microbatch = MicrobatchOf(timeline, event);
  if (event.kind == ActionKind::kUpdate || timeline.pipes.empty()) return microbatch;
  const Pipe& pipe = timeline.pipes[PipeOf(timeline, event.stage)];
  return microbatch + pipe.first_microbatch / timeline.slices;
}

int SliceOf(const Timeline& timeline, const Event& event) {
  return IsOfMicrobatch(event.kind) ? event.microbatch.value % timeline.slices : 0;
}

std::string PrintNumber(const Timeline& timeline, const Event& event) {
  const int microbatch = MicrobatchOfStep(timeline, event);
  if (timeline.slices == 1 || !IsOfMicrobatch(event.kind)) return absl::StrCat(microbatch);
  return absl::StrCat(microbatch, ".", SliceOf(timeline, event));
}

int64_t MakespanOf(const Timeline& timeline) {
  std::vector<int64_t> ends_ns(static_cast<size_t>(timeline.ranks()), 0);
  ForEachOnCores(timeline.ranks(), timeline.events.size(), [&](int rank) {
    int64_t end_ns = 0;
    for (const Event& event : timeline.of(RankId(rank))) end_ns = std::max(end_ns, event.end_ns);
    ends_ns[static_cast<size_t>(rank)] = end_ns;
  });
  return ends_ns.empty() ? 0 : *std::max_element(ends_ns.begin(), ends_ns.end());
}

Bubbles MeasureBubbles(const Timeline& timeline) {
  Bubbles bubbles;
  const auto ranks = static_cast<size_t>(timeline.ranks());
  bubbles.ranks.resize(ranks);
  std::vector<RankExtent> extents(ranks);
  ForEachOnCores(timeline.ranks(), timeline.events.size(), [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    bubbles.ranks[r] = MeasureRank(timeline, timeline.of(RankId(rank)), &extents[r]);
  });
  for (const RankExtent& extent : extents) {
    bubbles.makespan_ns = std::max(bubbles.makespan_ns, extent.end_ns);
    if (extent.first_ns > extent.last_ns) continue;  // a rank with nothing to do
    bubbles.span_ns = std::max(bubbles.span_ns, extent.last_ns - extent.first_ns);
  }
  if (bubbles.makespan_ns == 0) return bubbles;
  const auto makespan_ns = static_cast<double>(bubbles.makespan_ns);
  double idle_ns = 0;
  for (int r = 0; r < timeline.ranks(); ++r) {
    Bubbles::Rank& rank = bubbles.ranks[r];
    rank.idle_ns = bubbles.makespan_ns - rank.busy_ns;
    idle_ns += static_cast<double>(rank.idle_ns);
    if (rank.busy_ns > bubbles.ranks[bubbles.busiest].busy_ns) bubbles.busiest = r;
    if (rank.busy_ns < bubbles.ranks[bubbles.idlest].busy_ns) bubbles.idlest = r;
  }
  bubbles.rate = idle_ns / timeline.ranks() / makespan_ns;
  const Bubbles::Rank& busiest = bubbles.ranks[bubbles.busiest];
  bubbles.busiest_rate = static_cast<double>(busiest.idle_ns) / makespan_ns;
  bubbles.idlest_rate = static_cast<double>(bubbles.ranks[bubbles.idlest].idle_ns) / makespan_ns;
  if (bubbles.span_ns > 0) {
    bubbles.span_rate = static_cast<double>(bubbles.span_ns - busiest.busy_ns) /
                        static_cast<double>(bubbles.span_ns);
  }
  return bubbles;
}

}  // namespace stringline
