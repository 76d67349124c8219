#include "python/core/arrays.h"

#include <cstddef>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline::python {
namespace {

template <typename Item>
Array ArrayOfVector(const std::vector<Item>& items) {
  return {items.data(), items.size(), sizeof(Item)};
}

Json Field(const char* name, const char* type, size_t place) {
  return Json::array({name, type, place});
}

template <typename Item>
Json LayoutOfItem(Json fields) {
  return {{"item_bytes", sizeof(Item)}, {"fields", std::move(fields)}};
}

}  // namespace

std::optional<Array> ArrayOf(const Session& session, const std::string& name) {
  if (session.plan) {
    if (name == "actions") return ArrayOfVector(session.plan->actions);
    if (name == "stages") return ArrayOfVector(session.plan->stages);
    if (name == "action_first") return ArrayOfVector(session.plan->first);
  }
  if (session.timeline) {
    if (name == "events") return ArrayOfVector(session.timeline->events);
    if (name == "parts") return ArrayOfVector(session.timeline->parts);
    if (name == "event_first") return ArrayOfVector(session.timeline->first);
  }
  return std::nullopt;
}

Json LayoutsAsJson() {
  static_assert(sizeof(StageId) == 4 && sizeof(MicrobatchId) == 4 && sizeof(RankId) == 4);
  static_assert(sizeof(ActionKind) == 1 && sizeof(bool) == 1);
  const Json first = LayoutOfItem<uint32_t>(Json::array({Field("", "u4", 0)}));
  return {
      {"actions", LayoutOfItem<Action>(
                      Json::array({Field("kind", "u1", offsetof(Action, kind)),
                                   Field("joined", "?", offsetof(Action, joined)),
                                   Field("stage", "i4", offsetof(Action, stage)),
                                   Field("microbatch", "i4", offsetof(Action, microbatch))}))},
      {"stages", LayoutOfItem<Stage>(Json::array({Field("rank", "i4", offsetof(Stage, rank)),
                                                  Field("pipe", "i4", offsetof(Stage, pipe))}))},
      {"events", LayoutOfItem<Event>(
                     Json::array({Field("kind", "u1", offsetof(Event, kind)),
                                  Field("joined", "?", offsetof(Event, joined)),
                                  Field("stage", "i4", offsetof(Event, stage)),
                                  Field("microbatch", "i4", offsetof(Event, microbatch)),
                                  Field("start_ns", "i8", offsetof(Event, start_ns)),
                                  Field("end_ns", "i8", offsetof(Event, end_ns)),
                                  Field("first_bucket_ns", "i8", offsetof(Event, first_bucket_ns)),
                                  Field("waited_ns", "i8", offsetof(Event, waited_ns))}))},
      {"parts",
       LayoutOfItem<PartEvent>(Json::array({Field("event", "u4", offsetof(PartEvent, event)),
                                            Field("part", "u1", offsetof(PartEvent, part)),
                                            Field("layer", "i4", offsetof(PartEvent, layer)),
                                            Field("chunk", "u1", offsetof(PartEvent, chunk)),
                                            Field("start_ns", "i8", offsetof(PartEvent, start_ns)),
                                            Field("end_ns", "i8", offsetof(PartEvent, end_ns))}))},
      {"action_first", first},
      {"event_first", first}};
}

}  // namespace stringline::python
