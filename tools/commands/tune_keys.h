// The keys of the planner's answer in JSON.
#pragma once

#include "tools/commands/json_keys.h"

namespace stringline {

inline constexpr JsonKey kTune[] = {
    {"choices[].tp", "integer",
     "tensor-parallel ranks; the best choice of each mesh, the best first"},
    {"choices[].cp", "integer", "ranks that share a sequence"},
    {"choices[].pp", "integer", "ranks of a pipeline"},
    {"choices[].ep", "integer", "ranks that share experts out"},
    {"choices[].dp", "integer", "copies of a pipeline"},
    {"choices[].vp", "integer", "stages of a rank"},
    {"choices[].microbatch", "integer", "its sequences"},
    {"choices[].microbatches", "integer", "of a pipeline, in a step"},
    {"choices[].schedule", "text",
     "its name in the library; `found` of an order that the optimiser found"},
    {"choices[].split", "text",
     "`even`, or `light-ends`: the slowest stage is as fast as it can be"},
    {"choices[].sharding", "text", "`none`, `optimizer`, `gradients` or `parameters`"},
    {"choices[].recompute", "text", "`none`, `selective`, `part 2/4`, `full` or `offload 1/4`"},
    {"choices[].tokens_per_second_per_gpu", "number", ""},
    {"choices[].mfu", "share", "operations of the model, none of them done again, over the peak"},
    {"choices[].step_us", "us", "with `--jitter` the mean of the draws"},
    {"choices[].memory", "bytes", "of the fullest GPU, as `check` counts them"},
    {"choices[].parts_us.compute", "us", "of the step: what ranks compute on the mean"},
    {"choices[].parts_us.recompute", "us", "forwards that are done again"},
    {"choices[].parts_us.bubble", "us", "idle time, were the network free"},
    {"choices[].parts_us.layers", "us", "exposed collectives inside layers"},
    {"choices[].parts_us.messages", "us", "exposed messages of the pipeline"},
    {"choices[].parts_us.copies", "us", "exposed collectives of copies"},
    {"choices[].parts_us.update", "us",
     "behind it: the optimizer's step, with what is exposed of gathering what it updated"},
    {"choices[].parts_us.jitter", "us", "waits for times that are drawn"},
    {"choices[].why", "text", "why it is worse than the best; empty of the best"},
    {"bound_us", "us", "no choice that was considered has a shorter step; without jitter"},
    {"capacity", "bytes", "of a GPU"},
    {"gpus", "integer", ""},
    {"tokens_per_step", "integer", ""},
    {"counts.considered", "integer", "choices"},
    {"counts.memory", "integer", "of them, those that cannot fit"},
    {"counts.bound", "integer", "those that cannot be better by their bound"},
    {"counts.simulated", "integer", ""},
    {"counts.too_large", "integer", "those whose order does not fit"},
    {"counts.refused", "integer", "those that admit no plan"},
    {"counts.open", "integer", "those that the budget left over"},
};

}  // namespace stringline
