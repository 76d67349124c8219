// The keys of a step that a running training has noted, in JSON.
#pragma once

#include "tools/commands/json_keys.h"

namespace stringline {

inline constexpr JsonKey kWatch[] = {
    {"step", "integer", "from 1"},
    {"steps", "integer", "of the whole run"},
    {"time", "number", "when it was noted: seconds since 1970"},
    {"loss_nats", "number", "of the step, per target"},
    {"grad_norm", "number", "before clipping"},
    {"learning_rate", "number", ""},
    {"step_seconds", "number", "by the clock, with data and update; 0 of a run's first step"},
    {"tokens_per_second", "number", "of this step; 0 of a run's first step"},
    {"makespan_us", "us", "the longest timeline of a copy of the pipeline"},
    {"bubble", "share", "the mean idle time of a rank"},
    {"causes.*", "share", "the bubble by cause, as in `report`"},
    {"checkpoint_age_seconds", "number or null", "since the last checkpoint; null without one"},
    {"validation_nats", "number", "with `evaluate`, of the steps behind which it is"},
    {"ranks[].name", "text", "of each rank of the mesh, in their order"},
    {"ranks[].step_us", "us", "to its last end in the step"},
    {"ranks[].busy", "share", "of the step in which it computes"},
    {"ranks[].waits_us", "us", "the rest of the step"},
    {"ranks[].waits_for", "integer or null",
     "the rank of the mesh whose values it awaited longest; null: none"},
    {"ranks[].waits_for_us", "us", "so long"},
    {"ranks[].bytes", "bytes", "allocated for it"},
    {"slow[].rank", "integer",
     "a rank whose actions take more than 1.25 of the time of their equals, in five noted steps in "
     "turn",
     "no rank of a test on a shared machine is slow for sure"},
    {"slow[].stage", "integer", "", "as above"},
    {"slow[].action", "text", "`F`, `B`, `I`, `W`, or of a group `F&B`", "as above"},
    {"slow[].ratio", "number",
     "its time over the median of the stage's copies, or with fewer than three over that of its "
     "own first steps",
     "as above"},
    {"slow[].since", "integer", "the first of those steps", "as above"},
};

}  // namespace stringline
