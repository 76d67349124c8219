// The format of a timeline in a page: a header in JSON and columns of bytes (columns.h). The reader
// is page/data.js; the two change together.
//
// Columns by event, in the order of the timeline, each number as the difference from a guess:
//   kind       the kind of action, + 64 if joined
//   lane       index into the header's lanes of the rank
//   stage, microbatch, place, iteration     guess: that of the event before
//   other      of a message where stages are no chain the stage at its other end, else -1; only
//   there start      guess: the end of the rank's last computation length     guess: the length of
//   the last event of this kind observed_start, observed_end   if the timeline keeps observed
//   times. Guess: start and end giver      the computation of the stage before or behind that gives
//   the value, of several the
//              one whose value comes last; own, the
//              needed computation or copy of the same stage; via, the receive that brings the
//              giver's value. Event numbers, guess: the event's own; 0 stands for none
// Others:
//   idle_*     by idle stretch, in the order of the analysis; idle_count by rank
//   critical   event numbers, guess: the number before
//   send, recv ends of messages; guesses: the send before, the own send
//   part_*     parts of computations; part_event guesses the number before, part_start the event's
//              start
//   memory_*   points of the curves by rank; memory_count by rank
//   loop_outer, loop_pass    the plan's iterations
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/view/page/html.h"

namespace stringline {

struct PageData {
  nlohmann::ordered_json header;
  std::string bytes;
};

PageData PageDataOf(const PageTimeline& page);

// JSON in ASCII without '<': no text can end the element around the JSON. Bytes that are not UTF-8
// become U+FFFD.
std::string JsonForMarkup(const nlohmann::ordered_json& json);

}  // namespace stringline
