// A table of all words of the language, each with its sort and its help; other questions about
// words are answered from it.
#include "schedlang/text/words.h"

#include <algorithm>
#include <iterator>

namespace stringline {
namespace {

constexpr WordRow kWords[] = {
    // Actions
    {"F", WordSort::kLetter, "`F s`: the forward of stage s"},
    {"B", WordSort::kLetter,
     "`B s`: the whole backward of stage s, input gradient and weight gradient together"},
    {"I", WordSort::kLetter,
     "`I s`: the input gradient of stage s only; its weight gradient is left for later"},
    {"W", WordSort::kLetter,
     "`W s`: the weight gradient that an `I s` left for later; `W` alone: the oldest of the rank"},
    {"R", WordSort::kInPlace,
     "`R s`: what stage s did not keep, made again for its B or I; for stages that `recompute`"},
    {"D", WordSort::kInPlace,
     "`D s`: copies what stage s kept of a microbatch to the memory of the host, beside "
     "computations; what comes behind it has the memory"},
    {"U", WordSort::kInPlace,
     "`U s`: copies it back, from when the computation before it has ended; its R, B or I waits "
     "for it"},
    // A file
    {"use", WordSort::kStatement,
     "`use \"1f1b.sched\";` takes the schedules of another file; `use \"1f1b\";` of the library"},
    // A schedule
    {"schedule", WordSort::kStatement,
     "`schedule name(P, M, …) { … }`: an order of work for any P ranks and M microbatches"},
    {"stages", WordSort::kStatement, "`stages N on LAYOUT;`: how many stages, and on which ranks"},
    {"pipe", WordSort::kStatement,
     "`pipe name { stages …; microbatches e; }`: one of several rows of stages that hold the same "
     "model; `name[k]` is its stage k"},
    {"pad", WordSort::kStatement,
     "`pad microbatches to e;`: the counters see e microbatches; actions past M are dropped"},
    {"split", WordSort::kStatement, "`split …;`: which layers of the model each stage holds"},
    {"recompute", WordSort::kStatement,
     "`recompute …;`: which stages keep only what entered them, and do their F again, in an R or "
     "at the beginning of a B or I; `then recompute by e`: all do, each R e actions before its B "
     "or I"},
    {"overlap", WordSort::kStatement,
     "`overlap F & F;`: groups of these actions share their rank, part by part; with a block "
     "`{ compute { … } network { … } }`: in this order of the parts"},
    {"chunks", WordSort::kStatement,
     "`chunks 2;`: a microbatch's sequences are cut in two inside every stage, so that one half's "
     "all-to-alls lie under the other half's computation"},
    {"steps", WordSort::kInPlace,
     "`steps e;`: the ranks' orders are of e steps of training, each of M microbatches"},
    {"versions", WordSort::kInPlace,
     "`versions e;`: a stage holds e versions of its weights, the latest and those before it"},
    {"slices", WordSort::kInPlace,
     "`slices e;`: microbatches have e slices of their sequence; `F s [k]` is the forward of "
     "slice k, which needs the keys of the slices before it"},
    {"window", WordSort::kInPlace,
     "`window e;`: the orders are preferences; of the next e actions of its list a rank performs "
     "the first that is ready, within the memory of the list"},
    {"slack", WordSort::kInPlace,
     "`slack e;` beside `window`: each stage may hold e activations more than its list does"},
    {"edges", WordSort::kInPlace,
     "`edges s -> s + 1, 0 -> 3;`: which stages take what a stage gives, where they are no chain; "
     "`edges s -> t where s < t;` of all pairs"},
    {"skip", WordSort::kInPlace,
     "`skip s @ m where e;`: microbatch m leaves stage s out; what would enter s goes to the "
     "stages "
     "behind it"},
    {"where", WordSort::kInPlace,
     "`edges s -> t where e;`: which of these edges there are; `skip s @ m where e;`"},
    {"forward", WordSort::kInPlace,
     "`forward only;`: no backwards, as for inference and validation; F keeps nothing"},
    {"only", WordSort::kInPlace, "`forward only;`"},
    {"value", WordSort::kInPlace,
     "`value name of s;`: a value of the schedule's own, of each microbatch; also `on host`, "
     "`on each rank`, `on rank e`"},
    {"action", WordSort::kInPlace,
     "`action NAME s on LANE { needs …; gives …; frees …; }`: an action of the schedule's own, "
     "written `NAME s`; also `by each rank`, `with all ranks`"},
    {"rank", WordSort::kStatement,
     "`rank r { … }`: what every rank does, performed once for each with its number in r"},
    // Inside a rank
    {"let", WordSort::kStatement, "`let x = e;` names a value, `let f(x) = e;` a function"},
    {"require", WordSort::kStatement,
     "`require e \"message\";`: the schedule refuses parameters for which e does not hold"},
    {"order", WordSort::kStatement,
     "`order name { … }`: actions written down; `name` performs the next one"},
    {"repeat", WordSort::kStatement,
     "`repeat n { … }`, `repeat n as i { … }`: n times, with i = 0, 1, …"},
    {"if", WordSort::kStatement, "`if e { … } else { … }`: what is not 0 holds"},
    {"unshard", WordSort::kStatement,
     "`unshard s;`: gathers the parameters of stage s; in the schedule `unshard ahead: 2;`: where "
     "nothing says when, those of two stages before they are needed"},
    {"reshard", WordSort::kStatement, "`reshard s;`: drops the gathered parameters of stage s"},
    {"reduce", WordSort::kStatement,
     "`reduce s;`: sums the gradients of stage s over the ranks that share it"},
    {"update", WordSort::kInPlace,
     "`update s;`: the optimizer's step of stage s, behind its gradients of a step of training"},
    // In a timetable
    {"at", WordSort::kStatement, "`at slot : action;` in a timetable: the slot of an action"},
    {"tighten", WordSort::kStatement,
     "`tighten;` in a timetable: moves actions to earlier free slots, memory allowing"},
    {"fill", WordSort::kStatement,
     "`fill W;` in a timetable: weight gradients go to the free slots"},
    // In a greedy rank; the last two in a search, too
    {"hold", WordSort::kStatement,
     "`hold at most e;` in a greedy rank: microbatches from their first F to their last B or W"},
    {"prefer", WordSort::kStatement,
     "`prefer B, F;` in a greedy rank: which kind is taken when several can start; in a search: "
     "the "
     "kinds that it may use"},
    {"costs", WordSort::kStatement,
     "`costs F 1, B s -> 2 + s, p2p 1;` in a greedy rank or a search: how long actions and "
     "messages "
     "take while the order is made"},
    // In a search
    {"minimize", WordSort::kStatement,
     "`minimize makespan;` in a search: what is to be short; also `span` and `period`"},
    {"within", WordSort::kStatement,
     "`within activations e;` `within memory e;` in a search: the most that the rank may hold"},
    {"pairs", WordSort::kStatement,
     "`pairs F & B;` `pairs F & B costs 3;` in a search: two actions may share the rank"},
    {"iterations", WordSort::kStatement,
     "`iterations e;` in a search: how many orders it tries, more or less"},
    {"place", WordSort::kStatement,
     "`place any;` `place line, v, loop 3;` in a search: where the stages may live, instead of "
     "`stages`"},
    {"layers", WordSort::kStatement,
     "`layers e;` in a search: how many the model has; costs are then those of a layer"},
    // Inside statements
    {"on", WordSort::kKeyword, "`stages N on LAYOUT;`"},
    {"microbatches", WordSort::kKeyword,
     "in a pipe: how many run through it; in `pad microbatches to e`: how many are counted"},
    {"to", WordSort::kKeyword, "`pad microbatches to e;`"},
    {"as", WordSort::kKeyword, "`repeat n as i { … }`: i counts the passes from 0"},
    {"else", WordSort::kKeyword, "`if e { … } else { … }`"},
    {"timetable", WordSort::kKeyword,
     "`rank r timetable { … }`: every action at a slot of its own"},
    {"greedy", WordSort::kKeyword,
     "`rank r greedy { … }`: no rank idles while it can start something that is allowed"},
    {"search", WordSort::kKeyword,
     "`rank r search { … }`: an optimiser finds the order of every rank"},
    {"then", WordSort::kKeyword,
     "`= base(…) then defer W by e;` `… then recompute by e;` `… then offload by e;`: the base's "
     "order, changed"},
    {"and", WordSort::kKeyword, "`a and b`: 1 if both hold; b is evaluated only if a holds"},
    {"or", WordSort::kKeyword, "`a or b`: 1 if one holds; b is evaluated only if a does not"},
    {"not", WordSort::kKeyword, "`not a`: 1 if a is 0"},
    {"min", WordSort::kFunction, "`min(a, b, …)`: the least of its arguments"},
    {"max", WordSort::kFunction, "`max(a, b, …)`: the greatest of its arguments"},
    // In their place
    {"line", WordSort::kInPlace, "`stages P on line`: stage s on rank s"},
    {"loop", WordSort::kInPlace, "`stages N on loop`: stage s on rank s % P"},
    {"v", WordSort::kInPlace, "`stages 2 * P on v`: ranks 0 .. P-1, then back"},
    {"wave", WordSort::kInPlace, "`stages N on wave`: forth and back, as often as needed"},
    {"reversed", WordSort::kInPlace, "`stages N on reversed LAYOUT`: with the ranks mirrored"},
    {"even", WordSort::kInPlace, "`split even`: as equal as the number of layers allows"},
    {"balanced", WordSort::kInPlace, "`split balanced`: the least possible slowest stage"},
    {"any", WordSort::kInPlace,
     "`place any` `split any` `recompute any` `offload any` in a search: where stages live, which "
     "layers they hold and which of them recompute or copy to the host is found, too"},
    {"none", WordSort::kInPlace,
     "`recompute none`: every stage keeps what its backward needs; `offload none`: on its device"},
    {"all", WordSort::kInPlace, "`recompute all`, `offload all`: every stage does"},
    {"compute", WordSort::kInPlace, "the lane of an overlap that computes"},
    {"network", WordSort::kInPlace, "the lane of an overlap that communicates"},
    {"copy_out", WordSort::kInPlace, "the lane of copies from a rank's device"},
    {"copy_in", WordSort::kInPlace, "the lane of copies to a rank's device"},
    {"needs", WordSort::kInPlace, "`needs x s;`: an own action cannot begin without it"},
    {"gives", WordSort::kInPlace, "`gives x s;`: there from the end of an own action on"},
    {"frees", WordSort::kInPlace, "`frees x s;`: an own action needs it and ends its life"},
    {"of", WordSort::kInPlace, "`value name of s;`"},
    {"host", WordSort::kInPlace, "`value name of s on host;`: in the memory of the rank's host"},
    {"each", WordSort::kInPlace,
     "`value name of s on each rank;`: every rank has its own; `action NAME s by each rank`: each "
     "does it when it comes to it"},
    {"with", WordSort::kInPlace, "`action NAME s with all ranks`: all begin it at once"},
    {"ranks", WordSort::kInPlace, "`action NAME s with all ranks`"},
    {"output", WordSort::kInPlace, "`needs output s`: what F made, there until its B or I"},
    {"saved", WordSort::kInPlace, "`needs saved s`: what F keeps of a microbatch"},
    {"out_grad", WordSort::kInPlace,
     "`gives out_grad s`: the gradient with which the last stage's B or I begins"},
    {"in_grad", WordSort::kInPlace, "`needs in_grad s`: what B or I made"},
    {"most", WordSort::kInPlace, "`hold at most e;`"},
    {"p2p", WordSort::kInPlace, "`costs p2p e;`: how long a message to another rank takes"},
    {"microbatch", WordSort::kInPlace,
     "`costs microbatch m -> e;`: how many times as long as the costs microbatch m takes"},
    {"saved_for_I", WordSort::kInPlace,
     "`costs saved_for_I e;`: what a microbatch of a stage holds from its F until its B or I"},
    {"saved_for_W", WordSort::kInPlace,
     "`costs saved_for_W e;`: what a microbatch of a stage holds from its F until its B or W"},
    {"stash", WordSort::kInPlace,
     "`costs stash e;`: what a microbatch of a stage holds from its I until its W"},
    {"input", WordSort::kInPlace,
     "`costs input e;`: what a microbatch of a stage that recomputes holds from its F until its B "
     "or I"},
    {"makespan", WordSort::kInPlace, "`minimize makespan`: the end of the last rank"},
    {"span", WordSort::kInPlace,
     "`minimize span`: the longest time from a rank's first start to its own last end"},
    {"period", WordSort::kInPlace,
     "`minimize period`: what a further step takes where no rank waits for the others between two"},
    {"activations", WordSort::kInPlace,
     "`within activations e`: activations of stages that the rank holds at once"},
    {"memory", WordSort::kInPlace,
     "`within memory e`: what the rank holds at once, in the units of `costs saved_for_W …`"},
    {"defer", WordSort::kInPlace,
     "`then defer W by e`: every B becomes an I, its weight gradient follows e input gradients "
     "later"},
    {"offload", WordSort::kInPlace,
     "`then offload by e`: what a rank keeps long goes to its host, each U e actions before its B "
     "or I; `offload any` in a search: which stages copy, and when, is found, too"},
    {"by", WordSort::kInPlace, "`then defer W by e` `then recompute by e` `then offload by e`"},
};

bool Is(absl::string_view text, WordSort sort) {
  const WordRow* const row = FindWord(text);
  return row != nullptr && row->sort == sort;
}

}  // namespace

absl::Span<const WordRow> AllWords() { return kWords; }

const WordRow* FindWord(absl::string_view text) {
  const auto row = std::find_if(std::begin(kWords), std::end(kWords),
                                [text](const WordRow& r) { return text == r.word; });
  return row == std::end(kWords) ? nullptr : row;
}

bool IsActionLetter(absl::string_view text) {
  return text == "F" || text == "B" || text == "I" || text == "W";
}

bool IsFurtherLetter(absl::string_view text) { return text == "R" || text == "D" || text == "U"; }

bool BeginsInPlace(absl::string_view text) {
  return text == "steps" || text == "versions" || text == "slices" || text == "window" ||
         text == "slack" || text == "edges" || text == "skip" || text == "forward" ||
         text == "update" || text == "value" || text == "action";
}

bool IsKeyword(absl::string_view text) {
  return Is(text, WordSort::kStatement) || Is(text, WordSort::kKeyword);
}

const std::vector<std::string>& StatementWords() {
  static const auto* words = [] {
    auto* found = new std::vector<std::string>;
    for (const WordRow& row : kWords) {
      const bool begins = row.sort == WordSort::kLetter || row.sort == WordSort::kStatement;
      if (begins) found->push_back(row.word);
    }
    return found;
  }();
  return *words;
}

}  // namespace stringline
