// The table of the keys in each command's JSON: first the shapes that several answers share, then
// the answers, command by command.
#include "tools/commands/json_keys.h"

#include "tools/commands/trace_keys.h"
#include "tools/commands/tune_keys.h"
#include "tools/commands/watch_keys.h"

namespace stringline {
namespace {

constexpr JsonKey kEvery[] = {
    {"ok", "bool",
     "true with exit status 0; false with 1 (findings), 2 (an error), 3 (a lost process) and more "
     "(a signal)"},
    {"error", "text", "with exit status 2 and more: the message"},
    {"findings[]", "finding",
     "what is wrong with the text that was read; empty beside an `error`. Commands that look for "
     "faults list none with an empty list, too"},
};

constexpr JsonKey kFinding[] = {
    {"code", "text", "the word in the first column of `schedlang/base/diagnostics.def`"},
    {"file", "text", ""},
    {"line", "integer", "from 1"},
    {"column", "integer", "from 1"},
    {"message", "text", ""},
    {"where", "text", "the pass of the loop and the parameters"},
    {"notes[].message", "text", ""},
    {"notes[].line", "integer", "not of a note without a place"},
    {"notes[].column", "integer", "the same"},
    {"notes[].file", "text", "where it is another than the finding's"},
    {"notes[].where", "text", "as above; only where there is something to say"},
    {"count", "integer", "how many findings of that place were merged"},
};

constexpr JsonKey kReconstruction[] = {
    {"starts", "integer", "how many starts were observed"},
    {"moved", "integer", "how many of those are told otherwise"},
    {"most_us", "us", "by how much at most"},
    {"unseen", "integer", "of how many messages and reductions only the end was observed"},
};

constexpr JsonKey kMadeFor[] = {
    {"fit", "text",
     "`own` if the step is simulated at these costs, `changed` if messages or ranks differ, "
     "`alike` for others in the same proportions, `other`"},
    {"costs.*[]", "integer", "of `F`, `B`, `I` and `W`, in no unit: for all stages, or for each"},
    {"costs.p2p", "integer", "a message to another rank"},
};

constexpr JsonKey kOrder[] = {
    {"ordered_for", "made for", "of an order that was made for costs"},
    {"recompute[]", "integer", "the stages that recompute, where the schedule says so"},
};

constexpr JsonKey kNetwork[] = {
    {"network_us", "us", "dispatch and combine"},
    {"waiting_us", "us",
     "of it, for a partner: what a part is longer than the shortest of its stage"},
    {"hidden_us", "us", "of the rest, under computation"},
    {"exposed_us", "us", "of all of it: nothing computes"},
    {"still_us.*", "us",
     "of that, `partner` where it is waiting, or else by what the rank computes next: `F.experts`; "
     "`next F&B`, another group, or the cause it waits for as in `causes_us`; `end`"},
    {"ready_us.*", "us",
     "of what is exposed: the rank's next group, of these kinds, could have computed"},
    {"saved_us", "us", "what the parts of groups take in a row less what the groups took"},
};

constexpr JsonKey kWaits[] = {
    {"gather_us", "us", "what gathers of parameters take"},
    {"gather_wait_us", "us", "what ranks wait for them"},
    {"reduce_us", "us", "what reductions of gradients take"},
    {"reduce_wait_us", "us", "what ranks wait for them"},
};

constexpr JsonKey kAction[] = {
    {"action", "text", "as the plan prints it"},
    {"rank", "integer", ""},
    {"start_us", "us", ""},
    {"end_us", "us", "of a message that others waited behind: when it left the queue"},
    {"file", "text", "where it is written"},
    {"line", "integer", ""},
    {"column", "integer", ""},
    {"where", "text", "the pass of the loop"},
};

constexpr JsonKey kGraph[] = {
    {"inputs[]", "port", ""},
    {"nodes[].op", "text", ""},
    {"nodes[].operands[]", "text", "names of values"},
    {"nodes[].results[]", "text", "names of values"},
    {"nodes[].types[]", "text", "of the results"},
    {"nodes[].attributes.*", "number", ""},
    {"outputs[]", "port", ""},
};

constexpr JsonKey kPort[] = {
    {"role", "text", "`input`, `param`, `saved`, …"},
    {"index", "integer", "among the values of this role"},
    {"value", "text", "its name in the graph"},
    {"type", "text", ""},
};

constexpr JsonKey kChange[] = {
    {"before_us", "us", "median over the repetitions"},
    {"after_us", "us", ""},
    {"ratio", "number", "after / before"},
    {"interval", "list or null", "of 95 %; null with too few repetitions"},
    {"interval[]", "number", "the least ratio, the largest"},
    {"spread", "share",
     "by which the longest repetition is longer than the shortest, where that is more"},
    {"change", "text", "`faster`, `slower`, `no change`, `too few repetitions` or `cannot tell`"},
    {"within", "share or null", "of `no change`: it is not larger than that"},
};

constexpr JsonKey kWait[] = {
    {"rank", "integer", "that waits"},
    {"call", "integer", "in which it does: its place in `calls`"},
    {"for_rank", "integer", ""},
    {"lack", "text", "`not made`; `behind`: its part stands behind another call; `no dump`"},
    {"behind", "integer or null", "that other call; null for another lack"},
};

constexpr JsonKey kStep[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"makespan_us", "us", ""},
    {"span_us", "us", ""},
    {"bubble", "share", ""},
    {"busiest_rank", "integer", ""},
    {"busiest_bubble", "share", ""},
    {"idlest_rank", "integer", ""},
    {"idlest_bubble", "share", ""},
    {"span_bubble", "share", ""},
    {"steps", "integer", "of a plan of several"},
    {"period_us", "us",
     "a step of theirs, from the second one on; `report` of one step: what a further one takes, "
     "where no collective takes time"},
    {"period_bubble", "share", "of these steps"},
    {"actions", "integer", "computations; both parts of `a & b` count"},
    {"ranks[].peak_activations", "integer",
     "a number with a fraction where microbatches have slices"},
    {"ranks[].busy_us", "us", ""},
    {"ranks[].idle_us", "us", ""},
    {"ranks[].causes_us.*", "us",
     "idle time by `warm-up`, `cool-down`, `activation`, `gradient`, `queue`, `collective`, "
     "`memory`, `other`; they add up to `idle_us`"},
    {"balance_us.equal", "us", "with unequal microbatches: the makespan with equal ones"},
    {"balance_us.longest_first", "us", "with the same ones, sorted so"},
    {"balance_us.shortest_first", "us", "with the same ones, sorted so"},
    {"ready.window", "integer", "of a schedule in ready order: the actions it chooses among"},
    {"ready.slack", "integer", "the activations that a stage may hold beyond its list"},
    {"ready.listed_makespan_us", "us", "the makespan in the order of its lists"},
    {"memory_capacity", "bytes", "where the costs name a rank's memory"},
    {"overfull[].rank", "integer", "a rank that holds more than that"},
    {"overfull[].peak", "bytes", "the most"},
    {"overfull[].at_us", "us", "when that is"},
    {"overfull[].from_us", "us", "since when it is too much"},
    {"slow.*", "share", "with `--slow`: by rank and link, how much longer they take"},
};

constexpr JsonShape kShapes[] = {
    {"step", "The simulated step.", kStep, {"order"}},
    {"finding", "", kFinding},
    {"made for", "The costs that a greedy order or a searched one was made for.", kMadeFor},
    {"order", "", kOrder},
    {"reconstruction", "How far starts of a measured timeline are told otherwise than observed.",
     kReconstruction},
    {"network",
     "Parts of layers on the network: all-to-alls of experts, collectives of tensor-parallel "
     "ranks.",
     kNetwork},
    {"distribution", "Of numbers.", kDistribution},
    {"waits", "Gathers and reductions of copies of a pipeline.", kWaits},
    {"written action", "", kAction},
    {"graph", "", kGraph},
    {"port", "", kPort},
    {"change", "", kChange},
    {"wait", "A rank that waits for another, in the dumps of a hang.", kWait},
};

constexpr JsonKey kCheck[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"ranks", "integer", "how many"},
    {"actions", "integer", "computations; both parts of `a & b` count"},
    {"proven[]", "text", "the names of the rules"},
    {"layout", "text", ""},
    {"buffers", "integer", "messages buffered a channel"},
    {"receive_buffers", "integer", "the most that a rank needs"},
    {"activations", "integer",
     "the most that a rank holds; a number with a fraction where microbatches have slices"},
    {"steps", "integer", "of a plan with updates"},
    {"versions", "integer", "of its weights that a stage holds, where there are updates"},
    {"hangs_when_lazy", "bool", "the plan, if communicators connect at their first call"},
    {"bytes[]", "bytes", "with a model or costs of memory: of each rank"},
    {"memory", "bytes", "the limit, where there is one"},
    {"memory[]", "bytes or null", "where ranks have limits of their own; null for any number"},
    {"gaps[].rank", "integer",
     "with `bytes[]`: a rank whose block is larger than the most bytes alive in it at once; the "
     "further keys are of its largest gap while the most are alive"},
    {"gaps[].bytes", "bytes", "of the block, above the most alive at once"},
    {"gaps[].action", "text", "that runs then"},
    {"gaps[].begin", "bytes", "of the largest gap then: its first offset in the block"},
    {"gaps[].end", "bytes", "the offset behind it"},
    {"gaps[].below", "text", "the live value that ends there; empty: the block begins"},
    {"gaps[].above", "text", "the live value behind it; empty: the block ends"},
    {"host_bytes[]", "bytes", "of copies on each rank's host, if the schedule has such"},
    {"host_memory", "bytes", "the limit of these, where there is one"},
    {"host_memory[]", "bytes or null", "as `memory[]`"},
    {"notes[].message", "text", "what is no error, and changes nothing"},
    {"notes[].file", "text", ""},
    {"notes[].line", "integer", "from 1"},
    {"notes[].column", "integer", "from 1"},
};

constexpr JsonKey kCheckFor[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", "those given"},
    {"for.*", "text", "the ranges: `\"P\": \"2..64\"`"},
    {"plans", "integer", "how many"},
    {"right", "integer", ""},
    {"refused", "integer", ""},
    {"wrong", "integer", ""},
    {"proven[]", "text", "the rules, of the plans that are right; empty if none is"},
    {"refusals[].message", "text", ""},
    {"refusals[].plans", "integer", "how many are refused with it"},
    {"refusals[].first.*", "integer", "the parameters of the first"},
    {"rows[].value", "integer", "of the first range; a row for each value"},
    {"rows[].plans", "integer", ""},
    {"rows[].right", "integer", ""},
    {"rows[].refused", "integer", ""},
    {"rows[].wrong", "integer", ""},
    {"first_wrong.*", "integer", "its parameters, if there is one; `findings` are its"},
    {"elapsed_s", "s", ""},
    {"plans_per_second", "number", ""},
};

constexpr JsonKey kPlan[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"microbatches", "integer", "of all steps"},
    {"slices", "integer", "of each microbatch; 1 in most plans"},
    {"forward_only", "bool", "there are no backwards"},
    {"window", "integer", "in ready order, the actions a rank chooses among; 0: listed order"},
    {"slack", "integer", "the activations that a stage may hold beyond its list"},
    {"steps", "integer", "of training; most plans have one"},
    {"versions", "integer", "of its weights that a stage holds"},
    {"lowered", "bool", "with sends and receives"},
    {"stages[]", "integer", "the rank of each stage"},
    {"edges[][]", "integer", "from and to, where stages are no chain"},
    {"skips[][]", "integer", "a stage, and a microbatch of a step that leaves it out"},
    {"ranks[][]", "text", "the printed actions in order; `\"0F3&1B0\"` shares the rank"},
    {"recompute[]", "integer", "the stages that recompute, where the schedule says so"},
    {"messages.layout", "text", "of a plan with a line `messages`: the communicators' layout"},
    {"messages.lazy", "bool", "communicators are made at their first call"},
    {"messages.ranks[][]", "text", "as `ranks`, with the waits"},
    {"own_actions[].name", "text", "of an action of the schedule's own, if it has any"},
    {"own_actions[].kind", "text", "its kind in the Python package's `KINDS`"},
    {"own_actions[].lane", "text", "compute, network, copy_out or copy_in"},
};

constexpr JsonKey kProgram[] = {
    {"programs[].stage", "text", "`2`, or `up[1]`"},
    {"programs[].rank", "integer or null", "null of a text"},
    {"programs[].first", "bool", ""},
    {"programs[].last", "bool", ""},
    {"programs[].params[].name", "text", ""},
    {"programs[].params[].type", "text", ""},
    {"programs[].inputs[].type", "text", ""},
    {"programs[].inputs[].edge", "integer or null",
     "counted among the edges that lead to the stage; null of tokens"},
    {"programs[].outputs[].type", "text", ""},
    {"programs[].outputs[].edge", "integer or null",
     "counted among the edges that leave the stage; null of the loss"},
    {"programs[].target", "text or null", "its type; of the last stage"},
    {"programs[].positions", "text or null", "the type of tokens' positions in their documents"},
    {"programs[].mask_key", "text or null", "the type of the key of dropout's masks"},
    {"programs[].saved[].type", "text", ""},
    {"programs[].saved[].needed_by_weight", "bool", "until the weight gradient is done"},
    {"programs[].stash[]", "text", "the types of what input gradients leave for weight gradients"},
    {"programs[].forward", "graph", ""},
    {"programs[].backward", "graph", ""},
    {"programs[].input_gradient", "graph", ""},
    {"programs[].weight_gradient", "graph", ""},
    {"programs[].text", "text", "as `program` prints and reads it"},
};

constexpr JsonKey kShow[] = {
    {"origin", "text", "`simulated`, `measured` or `flight`"},
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"makespan_us", "us", ""},
    {"bubble", "share", ""},
    {"busiest_bubble", "share", ""},
    {"idlest_bubble", "share", ""},
    {"reconstructed", "reconstruction or null", "null where nothing is kept of what was observed"},
    {"ranks[][].action", "text", "sends and receives among them"},
    {"ranks[][].start_us", "us", ""},
    {"ranks[][].end_us", "us", ""},
    {"ranks[][].joined", "bool", "true for a later part of `a & b`"},
    {"ranks[][].unfinished", "bool", "in a flight record, and true: it had not ended"},
    {"ranks[][].observed_start_us", "us", "of a timeline that keeps what was observed"},
    {"ranks[][].observed_end_us", "us", "the same"},
};

constexpr JsonKey kSim[] = {
    {"jitter.deviation", "share", "with `--jitter` or `--seeds`: of each duration"},
    {"jitter.deviation_of_microbatches", "share", "of all durations of a microbatch alike"},
    {"jitter.draws", "integer", ""},
    {"jitter.listed_us.*", "us", "makespans in the order of the lists: `mean`, `least`, `most`"},
    {"jitter.ready_us.*", "us", "the same in ready order"},
    {"jitter.gain.*", "number", "how many times as fast ready order is: `mean`, `least`, `most`"},
};

constexpr JsonKey kSimFor[] = {
    {"points[].parameters.*", "integer", ""},
    {"points[].schedules[].schedule", "text", "its name"},
    {"points[].schedules[].makespan_us", "us", ""},
    {"points[].schedules[].bubble", "share", ""},
    {"points[].schedules[].busiest_bubble", "share", ""},
    {"points[].schedules[].idlest_bubble", "share", ""},
    {"points[].schedules[].span_bubble", "share", ""},
    {"points[].schedules[].peak_activations", "integer",
     "a number with a fraction where microbatches have slices"},
    {"points[].schedules[].actions", "integer", ""},
    {"points[].schedules[].stages", "integer", "of the model"},
    {"points[].schedules[].ordered_for", "text", "the `fit` of `sim`"},
    {"points[].schedules[].refused", "text", "why, in place of all this but `schedule`"},
    {"points[].schedules[].wrong", "text", "the same"},
    {"elapsed_s", "s", ""},
    {"steps_per_second", "number", ""},
    {"slow.*", "share", "with `--slow`: by rank and link, how much longer they take"},
};

constexpr JsonKey kReport[] = {
    {"critical_us.*", "us", "the critical path by kind"},
    {"memory.unit", "text", "of the peaks: `bytes` or `activations`"},
    {"memory.ranks[].peak", "integer", ""},
    {"memory.ranks[].at_us", "us", "when that is"},
    {"memory.ranks[].by_class.*", "bytes", "of the peak, with bytes"},
    {"memory.ranks[].host_peak", "bytes", "of its copies on the host, if the schedule has such"},
    {"ranks[]", "network", "where parts of computations are known; of all ranks at the top, too"},
    {"collectives", "waits", "where gathers or reductions take time: of all ranks"},
    {"collectives.exposed_us", "us", "by how much the makespan is longer for them"},
    {"collectives.after_step_us", "us",
     "the longest gather of what the optimizer stepped, if there is one"},
    {"ranks[].collectives", "waits", "of the rank"},
    {"bound_us", "us", "no order of these stages is shorter; not of a timeline"},
    {"what_if[].name", "text", "a change; not of a timeline"},
    {"what_if[].makespan_us", "us", "with it"},
    {"what_if[].change", "share", "of the makespan; below 0 if it is shorter"},
    {"what_if[].after_step_us", "us", "of what copies share out: as above"},
    {"what_if[].peak_bytes", "bytes", "of what copies share out: the most that a rank holds"},
    {"jitter.runs", "integer", "with a jitter"},
    {"jitter.seed", "integer", ""},
    {"jitter.makespan_us.*", "us", "by percentile: `p5`, `p50`, `p95`, `p99`"},
};

constexpr JsonKey kCompare[] = {
    {"first_makespan_us", "us", ""},
    {"second_makespan_us", "us", ""},
    {"first_bubble", "share", ""},
    {"second_bubble", "share", ""},
    {"terms[].name", "text", "the largest difference first; they add up"},
    {"terms[].first_us", "us", "a rank's average"},
    {"terms[].second_us", "us", ""},
    {"terms[].difference_us", "us", ""},
    {"actions[].kind", "text", ""},
    {"actions[].stage", "text", ""},
    {"actions[].count", "integer", "in both"},
    {"actions[].first_us", "us", "what one takes"},
    {"actions[].second_us", "us", ""},
    {"actions[].difference_us", "us", ""},
    {"matched", "integer", "computations in both"},
    {"only_first", "integer", ""},
    {"only_second", "integer", ""},
    {"unequal_work", "bool", "costs are for a stage, and the sides have not as many"},
    {"first_ordered_for", "made for", "of an order that was made for costs"},
    {"second_ordered_for", "made for", "the same"},
    {"first_recompute[]", "integer", "the stages that recompute, where the schedule says so"},
    {"second_recompute[]", "integer", "the same"},
};

constexpr JsonKey kSearch[] = {
    {"minimize", "text", "`makespan`, `span` or `period`"},
    {"value_us", "us", "of that, as simulated; with `--jitter` as `expect` says"},
    {"bound_us", "us", "no order is below"},
    {"bound", "text", "why"},
    {"expect", "text", "with `--jitter` or `--seeds`: `mean` or `worst`"},
    {"jitter.deviation", "share", "the same: of each duration"},
    {"jitter.deviation_of_microbatches", "share", "of all durations of a microbatch alike"},
    {"jitter.draws", "integer", ""},
    {"jitter.listed_us.*", "us", "makespans of what was found: `mean`, `least`, `most`"},
    {"gap", "share", "of the bound"},
    {"proven", "bool", "the value is the bound"},
    {"iterations", "integer", ""},
    {"makespan_us", "us", "simulated"},
    {"span_us", "us", "simulated"},
    {"place", "text or null", "where the stages live, as `--place` has it; null with `--from`"},
    {"places[]", "text", "all that were searched"},
    {"stages", "integer", "how many"},
    {"activations[]", "integer", "the most of each rank"},
    {"layers[]", "integer", "of each stage, where `--split any` found them"},
    {"recompute[]", "integer", "stages that the search made recompute, or was told to"},
    {"remade[]", "integer", "those of them whose R stand ahead of the gradients"},
    {"offload[]", "integer", "stages that copy to the host, for at least one microbatch"},
    {"bytes[]", "bytes", "with costs of memory: of each rank, as `check` counts them"},
    {"host_bytes[]", "bytes", "the same of copies on its host, if any stage copies"},
    {"library[].schedule", "text", "a schedule of the library that fits, the best first"},
    {"library[].value_us", "us", ""},
    {"balance_us.equal", "us", "with unequal microbatches: the makespan with equal ones"},
    {"balance_us.longest_first", "us", "with the same ones, sorted so"},
    {"balance_us.shortest_first", "us", "with the same ones, sorted so"},
    {"slow.*", "share", "with `--slow`: by rank and link, how much longer they take"},
};

constexpr JsonKey kSearchFor[] = {
    {"minimize", "text", "`makespan`, `span` or `period`"},
    {"family", "text", "the library's schedule, FILE, or the family of orders that the text is of"},
    {"chosen.*", "text", "its parameters that are not as written, as functions of P"},
    {"text", "text", "of a schedule `found`, for every size"},
    {"worst_gap", "share", "of the sizes"},
    {"sizes[].parameters.*", "integer", ""},
    {"sizes[].value_us", "us", "of `minimize`"},
    {"sizes[].bound_us", "us", "no order of this size is below"},
    {"sizes[].bound", "text", "why"},
    {"sizes[].gap", "share", "of the bound"},
    {"sizes[].makespan_us", "us", "simulated"},
    {"sizes[].activations", "integer", "the most of a rank"},
    {"sizes[].bytes[]", "bytes", "with costs of memory: of each rank, as `check` counts them"},
    {"sizes[].library.schedule", "text",
     "the best of the library's schedules, with its own defaults, if one fits"},
    {"sizes[].library.value_us", "us", ""},
    {"families", "integer", "texts whose parameters were varied"},
    {"iterations", "integer", "texts that were tried"},
    {"proof.range", "text",
     "all values of the first range from its smallest to its largest: `P=4..8 M=3*P`"},
    {"proof.plans", "integer", "in it"},
    {"proof.right", "integer", "of these, right by every rule of `check`"},
    {"proof.within", "integer", "of these, within the limit of memory at their size"},
    {"proof.first_wrong", "text", "the first plan that is not right; empty if all are"},
    {"proof.first_beyond", "text",
     "the first right plan that exceeds the limit; empty if none does"},
};

constexpr JsonKey kExplain[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"chain[]", "written action",
     "from the action back to the start of the step, through queues, receive buffers and "
     "collectives"},
    {"chain[].waited_for", "text",
     "`start`; of a computation `rank` (busy with `cause`), `message` or `parameters` (gathered "
     "until then); of a message `value` (made just then), `queue` (behind another) or `buffer` "
     "(free no earlier); of a collective `rank`, `collective` (the one before it) or `other rank` "
     "(which came to the reduction last)"},
    {"chain[].cause", "text",
     "all but for `start`: what the next entry is about. With `message` the computation that gave "
     "the value if the message left at once, or else the message"},
    {"chain[].idle_us", "us", "with `message` and `parameters`: how long the rank waited"},
    {"chain[].value", "text", "with `message`: which"},
    {"chain[].from_rank", "integer", "with `message`"},
    {"chain[].sent_us", "us", "with `message`"},
    {"chain[].arrived_us", "us", "with `message`"},
    {"chain[].behind", "text", "with `message`: the one that had to leave first, if one had"},
    {"chain[].stage", "text", "with `parameters`: whose"},
    {"chain[].in", "text", "with `queue`: which"},
    {"chain[].buffer_of_rank", "integer", "with `buffer`"},
    {"chain[].together_with", "text", "another part of one call that waited for it"},
    {"after[]", "written action", "what needs it"},
    {"after[].waits_for", "text", "`rank` or `value`"},
    {"after[].value", "text", "with `value`: which"},
    {"after[].ready_us", "us", "when that is there"},
};

constexpr JsonKey kText[] = {
    {"text", "text", "the file, also where `--out` writes it"},
};

constexpr JsonKey kFormat[] = {
    {"files[].file", "text", "one that parses"},
    {"files[].changed", "bool", "its layout is another; with `--check` `ok` is false then"},
    {"files[].text", "text", "laid out; with `--stdout`, and of standard input"},
};

constexpr JsonKey kLint[] = {
    {"form", "text", "`compute` or `comms`"},
    {"parameters.*", "integer", ""},
    {"stages", "integer", "how many"},
    {"peak_activations", "integer", ""},
    {"layouts.*.makespan_us", "us",
     "of `shared`, `pair` and `edge`: what `sim --messages as-written --layout` gives for the "
     "file. One that never ends is a finding"},
    {"layouts.*.export_order_us", "us",
     "the same for what `export --to torch-comms` makes of its computations"},
};

constexpr JsonKey kDiagnose[] = {
    {"ranks", "integer", "of the job, as far as dumps, groups and `--ranks` say"},
    {"dumps", "integer", "files that are whole"},
    {"recorded", "integer", "calls in them"},
    {"mismatches[].about", "text",
     "`call`, `size` or `dtype`: in what calls differ that belong together"},
    {"mismatches[].sequence", "integer or null",
     "of a collective in its group; null for a message"},
    {"mismatches[].sides[].ranks[]", "integer",
     "that agree with each other; of a message its sender, then its receiver"},
    {"mismatches[].sides[].call", "integer", "of the first of them: its place in `calls`"},
    {"mismatches[].hint", "text",
     "`none`; `swapped`, `left out`, `surplus`: what the ranks of the second side may have done"},
    {"behind[].why", "text",
     "`late`; `no dump`; `cut short`: its file ends early; `stuck`: in a call that all its ranks "
     "have made"},
    {"behind[].ranks[]", "integer", "which wait for nobody"},
    {"behind[].waiting", "integer", "ranks that wait for them, over others, too"},
    {"behind[].waiting_ranks[]", "integer", "in the call that tells most"},
    {"behind[].waiting_call", "integer or null",
     "that call of the first of these; null if nothing waits"},
    {"behind[].gave_up", "bool", "their recorders say that it has ended, which it cannot have"},
    {"behind[].last_call", "integer or null", "of the first rank; null without calls"},
    {"behind[].diverges", "object or null",
     "the first collectives of one number that are called from different places in the code; null "
     "for none"},
    {"behind[].diverges.late", "integer", ""},
    {"behind[].diverges.other", "integer", "of a rank that waits"},
    {"behind[].chain[]", "wait", "the longest: from its first rank to one of `ranks`"},
    {"circles[].steps[]", "wait", "each rank waits for the next, the last for the first"},
    {"timed_out[].ranks[]", "integer", ""},
    {"timed_out[].call", "integer", "with all its ranks; it did not end in its time"},
    {"under_way", "integer", "calls of a rank with all their partners"},
    {"without_dump[]", "integer", "ranks that no call waits for"},
    {"calls[].rank", "integer", "of the job, as all ranks here"},
    {"calls[].name", "text", "`all_reduce`, `send`, `recv`"},
    {"calls[].group", "text", "its process group"},
    {"calls[].group_description", "text", ""},
    {"calls[].sequence", "integer", "among the collectives of its group, or among its messages"},
    {"calls[].record", "integer", "its number in the recorder"},
    {"calls[].state", "text", "`scheduled`, `started`, `ended` or `timed out`"},
    {"calls[].inputs", "text", "sizes and dtypes"},
    {"calls[].outputs", "text", ""},
    {"calls[].from", "integer or null", "of a message; null for a collective"},
    {"calls[].to", "integer or null", "the same"},
    {"calls[].file", "text or null",
     "of the innermost frame outside of torch; null in dumps without stacks"},
    {"calls[].line", "integer or null", ""},
    {"calls[].function", "text or null", ""},
    {"calls[].planned", "object or null", "the message of `--schedule`; null without one"},
    {"calls[].planned.send", "text", ""},
    {"calls[].planned.receive", "text", ""},
    {"calls[].planned.step", "integer", "performances of the schedule before it"},
    {"calls[].planned.file", "text or null", "of the send; null for a plan without a text",
     "needs a plan made in a program"},
    {"calls[].planned.line", "integer or null", "", "needs a plan made in a program"},
    {"notes[]", "text", "limits of what these dumps tell"},
};

constexpr JsonKey kRehearse[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"measured_us", "us", "the median step's makespan"},
    {"measured_bubble", "share", ""},
    {"simulated_us", "us", ""},
    {"simulated_bubble", "share", ""},
    {"misprediction", "share", "(simulated − measured) / measured"},
    {"steps_us[]", "us", "makespans in order"},
    {"control_us", "us", "the known time of the control: computations alone"},
    {"controls_us[]", "us", "what it took, before every step"},
    {"reconstructed", "reconstruction", "of the measured step"},
    {"disturbance", "share", "(median control − known) / known"},
    {"verdict", "text",
     "`right`, `wrong`, or `disturbed`: a control was off by more than 3 %, so the prediction is "
     "not judged"},
    {"slow.*", "share", "with `--slow`: by rank and link, how much longer they take"},
};

constexpr JsonKey kBench[] = {
    {"measured", "integer", "repetitions; of a suite"},
    {"kept", "integer", "repetitions that were there already; of a suite"},
    {"file", "text", "of the results; of a suite"},
    {"form", "integer", "of the file: 1"},
    {"suite", "text", "its file's name"},
    {"date", "text", "when the first of it was measured, as `2026-01-02T03:04:05Z`"},
    {"device.cpu", "text", ""},
    {"device.cores", "integer", ""},
    {"device.memory_bytes", "bytes", ""},
    {"device.gpu", "text or null", "null without one"},
    {"versions.stringline", "text", ""},
    {"versions.build", "text", "a hash of the program"},
    {"versions.compiler", "text", ""},
    {"versions.cuda", "text or null", "null where it was built without"},
    {"versions.torch", "text or null", "with `beside: torch`; null where it was not found"},
    {"settings.repetitions", "integer", ""},
    {"settings.steps", "integer", "that count"},
    {"settings.warm_up", "integer", "steps that do not"},
    {"cases[].name", "text", ""},
    {"cases[].side", "text", "`stringline` or `torch`"},
    {"cases[].model", "text", "its name in the suite"},
    {"cases[].schedule", "text", ""},
    {"cases[].mesh", "text", ""},
    {"cases[].precision", "text", ""},
    {"cases[].key", "text", "a hash of all that went in"},
    {"cases[].inputs.*", "any", "what went in"},
    {"cases[].reason", "text or null", "why there is nothing"},
    {"cases[].runs", "text", "what performed the schedule"},
    {"cases[].params", "integer", "of the model"},
    {"cases[].tokens_per_step", "integer", ""},
    {"cases[].repetitions[].date", "text", ""},
    {"cases[].repetitions[].step_us[]", "us", "of every step that counts"},
    {"cases[].repetitions[].processor_us", "us", "of a step, over all ranks"},
    {"cases[].repetitions[].loss", "nats", "of the last step"},
    {"cases[].repetitions[].resident_bytes", "bytes", "of the largest process"},
    {"cases[].repetitions[].allocated_bytes", "bytes or null", "of all ranks' devices"},
    {"cases[].repetitions[].measured_bubble", "share or null", "of the last step; not of torch"},
    {"cases[].repetitions[].simulated_bubble", "share or null", "the same"},
    {"cases[].repetitions[].control.late", "share", "how late the control ended"},
    {"cases[].repetitions[].control.speed", "number", "rounds of it in a microsecond"},
    {"cases[].summary", "object or null", "medians over the repetitions"},
    {"cases[].summary.step_us", "us", ""},
    {"cases[].summary.quartiles_us[]", "us", "of all steps: the first, the third"},
    {"cases[].summary.repetitions_us[]", "us", "the median of each"},
    {"cases[].summary.processor_us", "us", ""},
    {"cases[].summary.tokens_per_second", "number", ""},
    {"cases[].summary.resident_bytes", "bytes", ""},
    {"cases[].summary.allocated_bytes", "bytes or null", ""},
    {"cases[].summary.measured_bubble", "share or null", ""},
    {"cases[].summary.simulated_bubble", "share or null", ""},
    {"cases[].summary.loss", "nats", ""},
};

constexpr JsonKey kBenchList[] = {
    {"cases[].name", "text", ""},
    {"cases[].reason", "text or null", "why it cannot be run"},
};

constexpr JsonKey kBenchCompare[] = {
    {"slower", "integer", "cases beyond `--fail-slower`; `ok` is false if there are any"},
    {"unseen[]", "text",
     "a case that may be beyond `--fail-slower`, and why the figures do not tell; `ok` is false if "
     "there are any"},
    {"cases[].name", "text", ""},
    {"cases[].side", "text", "`stringline` or `torch`"},
    {"cases[].same_loss", "bool", ""},
    {"cases[].step", "change", "of a step"},
    {"cases[].processor", "change", "of the processors' time"},
    {"not_compared[]", "text", "a case and why"},
    {"same_device", "bool", ""},
    {"speed_ratio", "number", "of the controls"},
    {"late[]", "share", "of the repetitions whose control was late, before and after"},
};

constexpr JsonKey kRun[] = {
    {"schedule", "text", "its name"},
    {"parameters.*", "integer", ""},
    {"params", "integer", "of the model"},
    {"steps", "integer", "done"},
    {"tokens_per_step", "integer", ""},
    {"tokens_per_second", "number", ""},
    {"elapsed_s", "s", ""},
    {"steps_us[]", "us", "what each step of this run took by the clock, data and update included"},
    {"processor_us[]", "us", "the same of the processors; of this process"},
    {"resident_bytes", "bytes", "the most that this process held"},
    {"first_loss_nats", "nats", ""},
    {"final_loss_nats", "nats", ""},
    {"order_1_entropy_nats", "nats or null", "of the text; null for tokens"},
    {"losses[]", "nats", "a token, of every step"},
    {"validations[].step", "integer", "the step behind which the forwards were performed"},
    {"validations[].loss_nats", "nats", "mean per token of the data of evaluate"},
    {"validations[].sequences", "integer", ""},
    {"aux_loss", "nats", "the last step's balance losses a token"},
    {"dropped", "integer", "slots that no expert took, of all steps"},
    {"peak_bytes[].planned", "bytes",
     "for each rank of the mesh, coordinate by coordinate: before any memory is taken"},
    {"peak_bytes[].allocated", "bytes", "what was"},
    {"host_us", "object or null", "how long the host takes to give a GPU a step; null on the CPU",
     "needs a GPU"},
    {"host_us.issued", "us or null", "op by op; null where no step was", "needs a GPU"},
    {"host_us.captured", "us or null", "captured; null where no step was", "needs a GPU"},
    {"not_captured", "text or null",
     "why steps were not captured; null where they were, or should not be", "needs a GPU"},
    {"resumed", "object or null",
     "the checkpoint that the run went on from; null where it began with its first step"},
    {"resumed.folder", "text", ""},
    {"resumed.step", "integer", ""},
    {"resumed.skipped[]", "text", "why newer ones were"},
    {"checkpoint", "text or null", "folder of the last one taken"},
    {"saved[]", "text", "files of parameters"},
    {"files[]", "text", "the others that it wrote"},
    {"stopped", "object or null", "by a signal: `ok` is false, and `error` says so"},
    {"stopped.signal", "text or null", "null if another process was stopped",
     "needs a signal to one of several processes"},
    {"stopped.step", "integer", "the last"},
    {"measured_us", "us",
     "makespan of the last step. This and what follows is not there of a run that was stopped, or "
     "that had nothing left to train"},
    {"measured_bubble", "share", ""},
    {"reconstructed", "reconstruction", "of the measured step"},
    {"simulated_us", "us", "makespan, at the costs that were measured"},
    {"simulated_bubble", "share", ""},
    {"misprediction", "share", "(simulated − measured) / measured"},
    {"step_us.mean", "us", "makespan of the steps that gave the costs"},
    {"step_us.median", "us", "of these steps"},
    {"step_us.last", "us", "of the last one"},
    {"predicted_us", "us", "of the last one"},
    {"network_us", "us",
     "all-to-alls of a step, summed over the ranks of the mesh's first coordinate: the mean over "
     "the "
     "steps that gave the costs"},
    {"waiting_us", "us", "of it, for a partner"},
    {"hidden_us", "us", "of the rest, under computation"},
    {"exposed_us", "us", "what no computation hides of them"},
    {"hang", "text",
     "with `--strict`, of a plan that hangs: what every rank waits for. `ok` is false, `findings` "
     "are what the checker says; nothing of the above"},
};

constexpr JsonKey kSchedules[] = {
    {"schedules[].name", "text", "on command lines"},
    {"schedules[].summary", "text", ""},
    {"schedules[].schedule", "text", "its name in the text"},
    {"schedules[].parameters[].name", "text", ""},
    {"schedules[].parameters[].default", "text or null",
     "as written; null for one that must be given"},
};

constexpr JsonShape kAnswers[] = {
    {"check", "", kCheck},
    {"check --for", "", kCheckFor},
    {"plan", "", kPlan},
    {"program", "", kProgram},
    {"show", "", kShow, {"order"}},
    {"sim", "", kSim, {"step"}},
    {"sim --for", "", kSimFor},
    {"report", "", kReport, {"step", "network"}},
    {"report of traces",
     "What GPUs did: of the calls before the last step of several, or in `--step`, and the work "
     "that "
     "these launch. The names of functions are those of Holistic Trace Analysis.",
     kReportTraces},
    {"report of a memory timeline", "As its `MemoryAnalysis`.", kReportMemory},
    {"compare", "", kCompare},
    {"search", "", kSearch},
    {"search --for", "", kSearchFor},
    {"tune", "", kTune},
    {"explain", "", kExplain, {"order"}},
    {"export", "", kText},
    {"import", "A schedule or a model.", kText},
    {"import of traces", "", kImportTraces},
    {"fmt", "", kFormat},
    {"lint", "", kLint},
    {"diagnose", "", kDiagnose},
    {"rehearse", "", kRehearse, {"order"}},
    {"calibrate", "", kText},
    {"bench", "A suite, or a file of results.", kBench},
    {"bench --list", "", kBenchList},
    {"bench --compare", "", kBenchCompare},
    {"run", "", kRun},
    {"watch", "The step noted last, as in the lines of `metrics.jsonl`.", kWatch},
    {"schedules", "", kSchedules},
};

constexpr JsonType kTypes[] = {
    {"text", "a string"},
    {"bool", "true or false"},
    {"integer", "a whole number"},
    {"number", ""},
    {"us", "microseconds; a whole number where they are whole, but for averages"},
    {"s", "seconds"},
    {"bytes", "a whole number"},
    {"share", "a number: 0.25 is 25 %"},
    {"nats", "a number"},
    {"list", ""},
    {"object", ""},
    {"any", "what the file holds"},
};

constexpr JsonShape kEveryAnswer = {"Every command", "", kEvery};

}  // namespace

const JsonShape& EveryAnswer() { return kEveryAnswer; }
absl::Span<const JsonShape> JsonAnswers() { return kAnswers; }
absl::Span<const JsonShape> SharedShapes() { return kShapes; }
absl::Span<const JsonType> JsonTypes() { return kTypes; }

}  // namespace stringline
