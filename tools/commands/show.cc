// stringline show: the timeline as a picture in the terminal.
#include <unistd.h>

#include <iostream>

#include "tools/answers/exports.h"
#include "tools/answers/order_note.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"
#include "tools/view/lane_rows.h"
#include "tools/view/terminal.h"

namespace stringline {
namespace {

Json EventsAsJson(const Timeline& timeline, RankId rank) {
  Json list = Json::array();
  for (uint32_t i = timeline.first[rank.value]; i < timeline.first[rank.value + 1]; ++i) {
    const Event& event = timeline.events[i];
    Json json = {{"action", PrintAction(timeline, event)},
                 {"start_us", Microseconds(event.start_ns)},
                 {"end_us", Microseconds(event.end_ns)},
                 {"joined", event.joined}};
    if (event.unfinished) json["unfinished"] = true;
    if (!timeline.observed.empty()) {
      json["observed_start_us"] = Microseconds(timeline.observed[i].start_ns);
      json["observed_end_us"] = Microseconds(timeline.observed[i].end_ns);
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json StepAsJson(const Session& step) {
  const Timeline& timeline = *step.timeline;
  const Bubbles bubbles = MeasureBubbles(timeline);
  Json ranks = Json::array();
  for (int rank = 0; rank < timeline.ranks(); ++rank) {
    ranks.push_back(EventsAsJson(timeline, RankId(rank)));
  }
  Json json = {{"ok", true},
               {"origin", timeline.origin},
               {"schedule", timeline.schedule},
               {"parameters", ParametersAsJson(timeline.parameters)},
               {"makespan_us", Microseconds(bubbles.makespan_ns)},
               {"bubble", bubbles.rate},
               {"busiest_bubble", bubbles.busiest_rate},
               {"idlest_bubble", bubbles.idlest_rate},
               {"reconstructed", ReconstructionAsJson(timeline)},
               {"ranks", std::move(ranks)}};
  if (step.costs) AddOrderedFor(*step.plan, *step.costs, &json);
  return json;
}

}  // namespace

int RunShow(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  std::vector<Session> steps;
  steps.push_back(*std::move(step));
  if (flags.lanes && !HasLanes(*steps[0].timeline)) return Fail(output, kNoLanes);
  const PictureQuestion asked = PictureQuestionOf(flags);
  const absl::StatusOr<ShownPart> part = ShownPartOf(asked, steps);
  if (!part.ok()) return Fail(output, part.status().message());
  const absl::StatusOr<bool> written = WriteExports(asked, *part, steps, output);
  if (!written.ok()) return Fail(output, written.status().message());
  const Timeline& timeline = *steps[0].timeline;
  if (output.json) {
    WriteJson(output.out, StepAsJson(steps[0]));
    return kOk;
  }
  if (*written) return kOk;
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = flags.width > 0 ? flags.width : TerminalWidth();
  picture.fold = flags.fold;
  picture.lanes = flags.lanes;
  picture.part = *part;
  picture.colors = ChooseColors(flags.color, is_terminal);
  output.out << Draw(timeline, picture);
  const std::string note = steps[0].costs ? OrderNote(*steps[0].plan, *steps[0].costs) : "";
  if (!note.empty()) output.out << note << "\n";
  return kOk;
}

}  // namespace stringline
