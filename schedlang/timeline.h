// What happened when: the third waist. The simulator and the recorder of real runs write the same
// struct, so every view and every comparison works for both.
//
// Times are integer nanoseconds from the start of the step. Text form, one event a line:
//
//   timeline simulated dualpipe_v P=4 M=8
//   rank 0: 0F0@0+1000 0F1@1000+1000 0F8&7B3@…
//
// where `3F7@start+length` is one event, sends and receives among them. With pipes, a line
// `pipe down M=4 stages=4` for each comes before the ranks; before those, `layout pair` where
// messages share communicators otherwise than in the layout `edge`. Parts of actions follow at the
// end, a line a rank: `parts 0: 0F8:F.attn@0+300 0F8:F.dispatch@300+100 …`; those of a stage's
// second layer on carry its number: `0F8:F.attn.1@900+300`.
//
// A measured timeline has starts that the rules of its plan reconstruct (executor/when_ready.h). It
// keeps what was observed, too: a line `observed` stands after the layout, and behind the times of
// an event or a part, where they differ from those, `[start+length]` as observed:
// `0F0@1000+500[1020+480]`. Of a message only its arrival is observed: it has none if that is its
// end.
//
// A flight record (`timeline flight …`, executor/flight_log.h) holds the last commands of a run
// that failed, of several steps one after the other. What had begun and not ended has a `?` behind
// its times, `1RECV_B3@5000+900?`: then the length is up to the moment of the record. Messages
// count from when their rank came to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

struct Event {
  ActionKind kind = ActionKind::kForward;
  bool joined = false;  // a later part of a group: it has the group's start and end
  StageId stage;
  MicrobatchId microbatch;
  int64_t start_ns = 0;
  int64_t end_ns = 0;       // for both ends of a message: from when it leaves to when it arrives
  bool unfinished = false;  // in a flight record: it had not ended then
};

// A part of a computation (parts/parts.h), of one alone or of an F beside a B or I, where it was
// simulated or measured by its parts. Those of the network lane are the all-to-alls.
struct PartEvent {
  uint32_t event = 0;  // index into Timeline::events: the F of its F.attn, the B of its W.attn
  uint8_t part = 0;
  int32_t layer = 0;  // as LayerPart::layer
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// When an event or a part really ran. Of a message, and of a collective that is nothing but calls,
// start and end are one: when it had ended. A message in flight starts when it leaves its channel.
struct ObservedTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  friend bool operator==(const ObservedTimes&, const ObservedTimes&) = default;
};

struct Timeline {
  std::string origin;  // "simulated" or "measured"
  std::string schedule;
  std::vector<Parameter> parameters;
  std::vector<Pipe> pipes;                // as Plan::pipes
  CommLayout layout = CommLayout::kEdge;  // which messages share a lane
  std::vector<PartEvent> parts;           // by event, then time
  // Events of rank r: events[first[r]] .. events[first[r + 1] - 1], in the order of the rank's
  // plan.
  std::vector<uint32_t> first = {0};
  std::vector<Event> events;
  // As observed, by event and by part; empty where nothing else is known than what is told above.
  std::vector<ObservedTimes> observed;
  std::vector<ObservedTimes> observed_parts;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const Event> of(RankId rank) const {
    return absl::MakeConstSpan(events).subspan(first[rank.value],
                                               first[rank.value + 1] - first[rank.value]);
  }
};

// What of a timeline's starts is reconstructed. A group counts once.
struct Reconstruction {
  int64_t seen = 0;     // groups and collectives whose beginning was observed
  int64_t moved = 0;    // of those, how many start at another time
  int64_t most_ns = 0;  // how far at most
  int64_t unseen = 0;   // messages and collectives of which only the end was observed
};
// Nothing where nothing is kept of what was observed.
std::optional<Reconstruction> ReconstructionOf(const Timeline& timeline);

// Which of the pipes the stage is in; 0 where there are none.
int PipeOf(const Timeline& timeline, StageId stage);
// The event's microbatch, numbered through the whole step: those of the second pipe after those of
// the first, as papers draw them. Action names count in their pipe.
int MicrobatchOfStep(const Timeline& timeline, const Event& event);

// The plan's actions as events, one each and in the same places, all at time 0.
Timeline TimelineOf(const Plan& plan, std::string origin);

std::string Print(const Timeline& timeline);
std::optional<Timeline> ReadTimeline(const Source& source, Diagnostics* diagnostics);

// Where the time of a step goes. A group counts once. The bubble is how long a rank is idle on
// average, as a share of the makespan. Papers also give the share of the rank that works most: of
// the makespan, and of the span (Qi et al. 2024, Zero Bubble Pipeline Parallelism).
struct Bubbles {
  int64_t makespan_ns = 0;  // latest end of anything
  int64_t span_ns = 0;      // largest (last end - first start) of a rank's computation
  double rate = 0;          // the mean over ranks of idle / makespan
  int busiest = 0;          // the rank that works most, and the one that works least
  int idlest = 0;
  double busiest_rate = 0;  // their idle / makespan
  double idlest_rate = 0;
  double span_rate = 0;  // (span - the busiest rank's work) / span
  struct Rank {
    int64_t busy_ns = 0;
    int64_t idle_ns = 0;       // makespan - busy
    int peak_activations = 0;  // stage activations alive at once, by the order of the plan
  };
  std::vector<Rank> ranks;
};
Bubbles MeasureBubbles(const Timeline& timeline);

}  // namespace stringline
