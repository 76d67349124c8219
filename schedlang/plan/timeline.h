// The start and end of every action: the third waist. The simulator and the recorder of real runs
// write the same struct, so every view and every comparison works for both.
//
// Times are integer nanoseconds from the start of the step. Text form, one event a line:
//
//   timeline simulated dualpipe_v P=4 M=8
//   rank 0: 0F0@0+1000 0F1@1000+1000 0F8&7B3@…
//
// Each `3F7@start+length` is an event, sends and receives among them. Where parameters are gathered
// and gradients reduced bucket by bucket (buckets.h), `0UNSHARD@0+500>100` has its first bucket
// after 100, and `0B7@1000+500~200` spent 200 of its 500 waiting for buckets. With pipes, a line
// `pipe down M=4 stages=4` for each comes before the ranks; `layout pair` stands before those if
// the layout of communicators is not `edge`, and before the pipes `slices 4` if microbatches have
// slices, `forward only` if there are no backwards, the lines of a schedule's own rows (rows.h),
// and the edges of stages that are no chain, as in a plan. Parts of actions follow at the end, a
// line a rank: `parts 0: 0F8:F.attn@0+300 0F8:F.dispatch@300+100 …`; from a stage's second layer on
// they carry the layer's number: `0F8:F.attn.1@900+300`.
//
// A measured timeline has starts reconstructed by the rules of its plan
// (executor/engine/when_ready.h). It keeps the observed times, too: a line `observed` stands after
// the layout, and the times of an event or a part are followed by differing observed times as
// `[start+length]`: `0F0@1000+500[1020+480]`. A message has only an observed arrival, printed if
// it differs from its end.
//
// A flight record (`timeline flight …`, executor/engine/flight_log.h) holds the last commands of a
// failed run, over several steps. A command without an end has a `?` behind its times,
// `1RECV_B3@5000+900?`: its length is up to the moment of the record. Messages count from the
// time at which their rank came to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct Event {
  ActionKind kind = ActionKind::kForward;
  bool joined = false;  // a later part of a group, with the group's start and end
  int16_t other = -1;   // as Action::other
  StageId stage;
  MicrobatchId microbatch;
  bool unfinished = false;  // in a flight record: had not ended yet
  int64_t start_ns = 0;
  int64_t end_ns = 0;     // at both ends of a message: its interval from departure to arrival
  int64_t waited_ns = 0;  // thereof a computation waited for parameters, a reduction for gradients
  int64_t first_bucket_ns = 0;  // for an UNSHARD: the end of its first bucket; 0: of all

  int64_t worked_ns() const { return end_ns - start_ns - waited_ns; }
};

// A simulated or measured part (plan/parts.h) of a computation that runs alone or as an F beside a
// B or I. Parts of the network lane are the all-to-alls.
struct PartEvent {
  uint32_t event = 0;  // index into Timeline::events: the F of its F.attn, the B of its W.attn
  uint8_t part = 0;
  int32_t layer = 0;  // as LayerPart::layer
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint8_t chunk = 0;      // as LayerPart::chunk
  int64_t bucket_ns = 0;  // as observed: the last bucket that it awaited was there; 0: it awaited
                          // none
};

// The observed times of an event or a part. A message, and a collective of calls only, has an
// observed end alone, so start and end are equal. A message in flight starts when it leaves its
// channel.
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
  std::vector<Edge> edges;                // of a plan whose stages are no chain
  std::vector<Skip> skips;                // as Plan::skips
  OwnRows rows;                           // as Plan::rows
  int slices = 1;                         // as Plan::slices; microbatches count them
  bool forward_only = false;              // as Plan::forward_only
  CommLayout layout = CommLayout::kEdge;  // the messages that share a lane
  std::vector<PartEvent> parts;           // by event, then time
  // Events of rank r: events[first[r]] .. events[first[r + 1] - 1], in the order of the rank's
  // plan.
  std::vector<uint32_t> first = {0};
  std::vector<Event> events;
  // Observed times by event and by part; empty if the times above are all that is known.
  std::vector<ObservedTimes> observed;
  std::vector<ObservedTimes> observed_parts;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const Event> of(RankId rank) const {
    return absl::MakeConstSpan(events).subspan(first[rank.value],
                                               first[rank.value + 1] - first[rank.value]);
  }
};

// The extent of the reconstruction of a timeline's starts. A group counts once.
struct Reconstruction {
  int64_t seen = 0;     // groups and collectives with an observed beginning
  int64_t moved = 0;    // among those, the number with another start
  int64_t most_ns = 0;  // the largest difference
  int64_t unseen = 0;   // messages and collectives with an observed end only
};
// Nothing if the timeline keeps no observed times.
std::optional<Reconstruction> ReconstructionOf(const Timeline& timeline);

// The index of the stage's pipe; 0 without pipes.
int PipeOf(const Timeline& timeline, StageId stage);
// The event's microbatch in its pipe; of an UPDATE its step.
int MicrobatchOf(const Timeline& timeline, const Event& event);
// The event's microbatch, numbered through the whole step: those of the second pipe after those of
// the first, as papers draw them. Action names count in their pipe. Of an UPDATE its step.
int MicrobatchOfStep(const Timeline& timeline, const Event& event);
// The slice of an event on a microbatch; 0 for another.
int SliceOf(const Timeline& timeline, const Event& event);
// "3", "3.1": both as pictures number the event.
std::string PrintNumber(const Timeline& timeline, const Event& event);

// "3F7", "3F7.1": the event's action.
std::string PrintAction(const Timeline& timeline, const Event& event);

// The plan's actions as events, in the same places, all at this time.
Timeline TimelineOf(const Plan& plan, std::string origin, int64_t at_ns = 0);

std::string Print(const Timeline& timeline);
std::optional<Timeline> ReadTimeline(const Source& source, Diagnostics* diagnostics);

// The makespan: from the start of the step to the last end of anything in it, of a reduction that
// trails behind the computations as well.
int64_t MakespanOf(const Timeline& timeline);

// The uses of a step's time. A group counts once. The bubble is the mean idle time of a rank, as a
// share of the makespan. Papers also give the share of the rank that works most: of the makespan,
// and of the span (Qi et al. 2024, Zero Bubble Pipeline Parallelism).
struct Bubbles {
  int64_t makespan_ns = 0;  // MakespanOf
  int64_t span_ns = 0;      // largest (last end - first start) of a rank, messages left out
  double rate = 0;          // the mean over ranks of idle / makespan
  int busiest = 0;          // the ranks with the most and the least work
  int idlest = 0;
  double busiest_rate = 0;  // their idle / makespan
  double idlest_rate = 0;
  double span_rate = 0;  // (span - the busiest rank's work) / span
  struct Rank {
    int64_t busy_ns = 0;
    int64_t idle_ns = 0;  // makespan - busy
    // Stage activations alive at once, by the order of the plan; with slices, so many of them.
    int peak_activations = 0;
  };
  std::vector<Rank> ranks;
};
Bubbles MeasureBubbles(const Timeline& timeline);

}  // namespace stringline
