// A slice is two packets, its begin and its end. A lane's slices come by their start, and those
// still open stand on a stack, so ends come in their order. A name is written out once and then
// goes by number; a message is a flow from its maker's slice to its receive's.
#include "tools/view/perfetto.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/view/protobuf.h"
#include "tools/view/trace_lanes.h"

namespace stringline {
namespace {

// Field numbers, by message.
namespace trace {
constexpr int kPacket = 1;
}
namespace packet {
constexpr int kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12, kFlags = 13,
              kTrackDescriptor = 60;
}
namespace track {
constexpr int kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8;
}
namespace process {
constexpr int kPid = 1, kName = 6;
}
namespace counter {
constexpr int kUnit = 3;
constexpr int kUnitCount = 2, kUnitBytes = 3;
}  // namespace counter
namespace event {
constexpr int kAnnotations = 4, kType = 9, kNameId = 10, kTrack = 11, kCategories = 22,
              kCounterValue = 30, kFlows = 47, kEndingFlows = 48;
constexpr int kBegin = 1, kEnd = 2, kCount = 4;
}  // namespace event
namespace annotation {
constexpr int kNameId = 1, kInt = 4, kText = 6;
}
namespace interned {
constexpr int kEventNames = 2, kAnnotationNames = 3;
constexpr int kId = 1, kName = 2;
}  // namespace interned

constexpr uint64_t kSequenceId = 1;
constexpr uint64_t kClearsState = 1, kNeedsState = 2;

// Texts that are written once and then referred to by number.
class InternedTexts {
 public:
  explicit InternedTexts(int field) : field_(field) {}

  // The text's number; *fresh gets the definition that the packet must begin with.
  uint64_t IdOf(const std::string& text, ProtobufMessage* fresh, bool* is_fresh) {
    const auto [found, is_new] = ids_.try_emplace(text, ids_.size() + 1);
    if (is_new) {
      ProtobufMessage entry;
      entry.AddVarint(interned::kId, found->second);
      entry.AddText(interned::kName, text);
      fresh->AddMessage(field_, entry);
      *is_fresh = true;
    }
    return found->second;
  }

 private:
  const int field_;
  std::map<std::string, uint64_t> ids_;
};

class PerfettoWriter {
 public:
  std::string Write(absl::Span<const TracedStep> steps) {
    bool first = true;
    for (const TracedStep& step : steps) {
      WriteStep(step, steps.size() > 1, first);
      first = false;
    }
    return std::move(out_);
  }

 private:
  void WriteStep(const TracedStep& step, bool named, bool first) {
    if (first) WriteFlags();
    begins_.clear();
    ends_.clear();
    waiting_.clear();
    for (const MessageEvents& message : step.analysis.messages) {
      const uint64_t flow = ++flows_;
      begins_.insert({message.maker, flow});
      ends_[message.recv] = flow;
    }
    for (const IdleStretch& idle : step.analysis.idle) {
      if (idle.waiting >= 0) waiting_[static_cast<uint32_t>(idle.waiting)] = &idle;
    }
    const std::vector<TraceLane> lanes = TraceLanesOf(step.plan, step.timeline);
    size_t lane = 0;
    for (int r = 0; r < step.timeline.ranks(); ++r) {
      const uint64_t rank = ++tracks_;
      const std::string name = absl::StrCat("rank ", r, named ? ": " : "", named ? step.name : "");
      WriteProcess(rank, name);
      for (; lane < lanes.size() && lanes[lane].rank == RankId(r); ++lane) {
        WriteLane(step, lanes[lane], rank);
      }
      WriteCounter(rank, step.memory.in_bytes ? "memory" : "activations",
                   step.memory.in_bytes ? counter::kUnitBytes : counter::kUnitCount,
                   step.memory.ranks[r]);
      WriteCounter(rank, "microbatches in flight", counter::kUnitCount,
                   MicrobatchesInFlight(step.timeline, RankId(r)));
    }
  }

  void WritePacket(ProtobufMessage packet) {
    packet.AddVarint(packet::kSequence, kSequenceId);
    ProtobufMessage whole;
    whole.AddMessage(trace::kPacket, packet);
    out_ += whole.bytes();
  }

  void WriteFlags() {
    ProtobufMessage packet;
    packet.AddVarint(packet::kFlags, kClearsState);
    WritePacket(std::move(packet));
  }

  void WriteTrack(const ProtobufMessage& descriptor) {
    ProtobufMessage packet;
    packet.AddMessage(packet::kTrackDescriptor, descriptor);
    WritePacket(std::move(packet));
  }

  void WriteProcess(uint64_t uuid, const std::string& name) {
    ProtobufMessage process;
    process.AddVarint(process::kPid, ++processes_);
    process.AddText(process::kName, name);
    ProtobufMessage descriptor;
    descriptor.AddVarint(track::kUuid, uuid);
    descriptor.AddMessage(track::kProcess, process);
    WriteTrack(descriptor);
  }

  void WriteLane(const TracedStep& step, const TraceLane& lane, uint64_t parent) {
    const uint64_t uuid = ++tracks_;
    ProtobufMessage descriptor;
    descriptor.AddVarint(track::kUuid, uuid);
    descriptor.AddText(track::kName, lane.name);
    descriptor.AddVarint(track::kParent, parent);
    WriteTrack(descriptor);
    std::vector<int64_t> open;  // the ends of the open slices
    for (const TraceSlice& slice : lane.slices) {
      while (!open.empty() && open.back() <= slice.start_ns) {
        WriteEnd(uuid, open.back());
        open.pop_back();
      }
      WriteBegin(step, slice, uuid);
      open.push_back(slice.end_ns);
    }
    for (; !open.empty(); open.pop_back()) WriteEnd(uuid, open.back());
  }

  void WriteBegin(const TracedStep& step, const TraceSlice& slice, uint64_t uuid) {
    ProtobufMessage event, fresh;
    bool is_fresh = false;
    event.AddVarint(event::kType, event::kBegin);
    event.AddVarint(event::kTrack, uuid);
    event.AddVarint(event::kNameId, names_.IdOf(NameOf(step.timeline, slice), &fresh, &is_fresh));
    const Event& of = step.timeline.events[slice.event];
    event.AddText(event::kCategories,
                  slice.part >= 0 ? "part" : PrintedKind(step.timeline.rows, of.kind));
    const auto annotate = [&](const char* name, const auto& value) {
      ProtobufMessage note;
      note.AddVarint(annotation::kNameId, notes_.IdOf(name, &fresh, &is_fresh));
      if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
        note.AddVarint(annotation::kInt, static_cast<uint64_t>(value));
      } else {
        note.AddText(annotation::kText, value);
      }
      event.AddMessage(event::kAnnotations, note);
    };
    annotate("stage", static_cast<int64_t>(of.stage.value));
    if (of.microbatch.valid()) annotate("microbatch", int64_t{MicrobatchOf(step.timeline, of)});
    if (step.timeline.slices > 1 && IsOfMicrobatch(of.kind)) {
      annotate("slice", int64_t{SliceOf(step.timeline, of)});
    }
    annotate("kind", std::string(MeaningOfKind(of.kind)));
    if (step.source != nullptr) {
      const Action& action = step.plan.actions[slice.event];
      const uint32_t place = SpanOf(step.plan, action).begin;
      annotate("source",
               absl::StrCat(step.source->PathAt(place), ":", step.source->Locate(place).line));
    }
    if (const auto idle = waiting_.find(slice.event); idle != waiting_.end() && slice.part < 0) {
      annotate("waited for", std::string(NameOf(idle->second->cause)));
      annotate("waited ns", idle->second->length_ns());
    }
    if (slice.part < 0) {
      for (auto [flow, end] = begins_.equal_range(slice.event); flow != end; ++flow) {
        event.AddFixed64(event::kFlows, flow->second);
      }
      const auto flow = ends_.find(slice.event);
      if (flow != ends_.end()) event.AddFixed64(event::kEndingFlows, flow->second);
    }
    WriteEvent(slice.start_ns, event, is_fresh ? &fresh : nullptr);
  }

  void WriteEnd(uint64_t uuid, int64_t time_ns) {
    ProtobufMessage event;
    event.AddVarint(event::kType, event::kEnd);
    event.AddVarint(event::kTrack, uuid);
    WriteEvent(time_ns, event, nullptr);
  }

  void WriteEvent(int64_t time_ns, const ProtobufMessage& event, const ProtobufMessage* fresh) {
    ProtobufMessage packet;
    packet.AddVarint(packet::kTimestamp, static_cast<uint64_t>(time_ns));
    if (fresh != nullptr) packet.AddMessage(packet::kInterned, *fresh);
    packet.AddVarint(packet::kFlags, kNeedsState);
    packet.AddMessage(packet::kTrackEvent, event);
    WritePacket(std::move(packet));
  }

  void WriteCounter(uint64_t parent, const char* name, int unit, const MemoryCurve& curve) {
    const uint64_t uuid = ++tracks_;
    ProtobufMessage counts, descriptor;
    counts.AddVarint(counter::kUnit, static_cast<uint64_t>(unit));
    descriptor.AddVarint(track::kUuid, uuid);
    descriptor.AddText(track::kName, name);
    descriptor.AddVarint(track::kParent, parent);
    descriptor.AddMessage(track::kCounter, counts);
    WriteTrack(descriptor);
    for (const MemoryPoint& point : curve.points) {
      ProtobufMessage event;
      event.AddVarint(event::kType, event::kCount);
      event.AddVarint(event::kTrack, uuid);
      event.AddVarint(event::kCounterValue, static_cast<uint64_t>(point.amount));
      WriteEvent(point.time_ns, event, nullptr);
    }
  }

  std::string out_;
  InternedTexts names_{interned::kEventNames};
  InternedTexts notes_{interned::kAnnotationNames};
  uint64_t tracks_ = 0;
  uint64_t flows_ = 0;
  uint64_t processes_ = 0;
  std::multimap<uint32_t, uint64_t> begins_;        // by event: the flows that begin here
  std::map<uint32_t, uint64_t> ends_;               // and the flow that ends here
  std::map<uint32_t, const IdleStretch*> waiting_;  // by event
};

}  // namespace

std::string WritePerfetto(absl::Span<const TracedStep> steps) {
  return PerfettoWriter().Write(steps);
}

}  // namespace stringline
