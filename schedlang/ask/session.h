// From a file to the uses of a step's time, as values: source, plan, lowered, checked, costs,
// timeline. Every command, the sweeps, the editor's findings and `run` go this way, so a single
// place finds a file's kind and the costs, adds collectives, and decides on the checks.
//
// Requests come as plain structs: from a command line (requests.h), a run file, a test.
// Findings about the text are in Session::diagnostics; a Status is for input beyond judgement at
// all: a file that cannot be read, parameters for a file that holds its own, costs that do not fit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/base/stop.h"
#include "schedlang/check/check.h"
#include "schedlang/costs/costs.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/plan_file.h"
#include "schedlang/plan/sharding.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {

enum class FileKind : uint8_t { kSchedule, kPlan, kTorch, kTimeline };
// By the end of its name: .plan, .csv, .timeline; anything else is a schedule. Standard input by
// its beginning, so nothing may have been read from it yet.
FileKind KindOfFile(absl::string_view path);
// The kind of a text with this name: by the end of the name, or else by its beginning behind
// comments.
FileKind KindOfText(absl::string_view name, absl::string_view text);
// True for a plan or a torch schedule, whose parameters are in the file.
inline bool HoldsParameters(FileKind kind) {
  return kind == FileKind::kPlan || kind == FileKind::kTorch;
}

struct PlanRequest {
  std::string file;      // with a text: only its name in messages
  std::string schedule;  // a schedule in the file; "" for its last
  std::vector<Parameter> parameters;
  std::vector<Parameter> offered;        // given if the schedule has a parameter of the same name
  bool again = false;                    // search for orders, whatever is kept (found_file.h)
  std::optional<std::string> text = {};  // what is read in the place of the file
  // A wish to end elaboration soon (ElaborateLimits::stop). May be null.
  const Stop* stop = nullptr;
};

struct SlowRank {
  int rank = 0;
  int64_t share = 0;  // additional computing time, in millionths
};

struct SlowLink {
  RankLink link;
  int64_t share = 0;  // additional time of its messages, in millionths
};

// Costs as text, or else as a table, or else from a file, or else none: then those of the plan's
// order, or UnitCosts (ResolveCosts).
struct CostRequest {
  std::string text;
  std::string file;
  std::optional<std::string> file_text = {};  // read in the place of the file
  std::vector<SlowRank> slow;
  std::vector<SlowLink> slow_links = {};
  std::string work;  // scope of the costs, "stage", "rank" or "model"; "": as the file says
  CopiesRequest copies;
  std::optional<CostTable> table = {};
  std::optional<CostSpec> spec = {};  // in place of all of these
  // For several plans, of which one may have own actions or links that another has not: the keys
  // that none has are refused by the caller (DropOwnKeys, CheckLinksOfSome).
  bool for_several = false;
  bool for_places = false;  // the same of links alone

  bool IsGiven() const {
    return !text.empty() || table || spec || !file.empty() || file_text || copies.IsGiven();
  }
};

// Costs for any plan.
struct StepCosts {
  CostSpec spec;
  std::vector<SlowRank> slow;
  std::vector<SlowLink> slow_links = {};
};

// The earliest start of a send or a receive, beside the limits of its queue and value.
enum class MessageIssue : uint8_t {
  kEarly,      // at once
  kAsWritten,  // when all actions listed before on its rank have ended (WiringAsWritten)
};

// Fields without a value are as the plan's line `messages` says (plan_file.h), or else the layout
// `edge` and kEarly.
struct MessageRequest {
  std::optional<CommLayout> layout;
  std::optional<MessageIssue> issue;
};

// The bytes of every stage of a model, and the collectives of its training.
struct ModelSizes {
  std::vector<StageSizes> stages;
  CollectiveChoice collectives;
};
// Cuts a model at the plan's stages. Errors: a model that cannot be read or divided so.
using FindModelSizes = std::function<absl::StatusOr<ModelSizes>(const Plan&)>;

struct CheckRequest {
  std::optional<CommLayout> layout;  // as in MessageRequest
  int buffers = 0;                   // as in CheckOptions, like the next two
  bool lazy = false;                 // true, too, of a plan whose line `messages` says so
  int activations = -1;
  FindModelSizes model;          // the model of the stages; none: sizes come from the costs
  MemoryLimit memory;            // most bytes a rank may hold; without a limit, from the costs
  MemoryLimit host;              // the same of copies on its host
  CostRequest costs;             // memory, and state that copies of the pipeline share
  CollectiveChoice collectives;  // collectives of a run that the schedule leaves out
};

// A file and the results of the phases so far. Without findings, the requested result exists.
struct Session {
  Source source;
  FileKind kind = FileKind::kSchedule;
  Diagnostics diagnostics;
  std::optional<Plan> plan;  // a recorded step: nothing if no plan performs the step (PlanOf)
  // For a plan: as in PlanFile; for a torch `.csv` as in TorchFile.
  std::optional<IssuedMessages> issued;
  std::vector<MessageWait> waits;
  bool legacy = false;
  CheckOptions checked_for;                   // the options of the check, after a check
  MessageIssue issue = MessageIssue::kEarly;  // in the simulation
  std::optional<CostModel> costs;             // for the simulation
  std::optional<StepCosts> asked;             // the costs before they were resolved
  std::optional<Plan> written;                // if collectives were added: the plan without them
  std::optional<Plan> listed;                 // of a plan with a window, once it is simulated: its
                                              // lists, of which `plan` is the performance
  bool costs_of_model = false;                // CostSpec::IsOfModel
  std::optional<Timeline> timeline;
  // The dependencies of the plan in the timeline: made once, as soon as the plan is simulated or
  // recognised in a recorded step.
  std::shared_ptr<const Wiring> links;
};

// The plan as in the file, a schedule's elaborated. Not for a `.timeline`.
absl::StatusOr<Session> OpenPlan(const PlanRequest& request);

// OpenPlan, lowered and checked: the plan exists only if the checker finds nothing.
absl::StatusOr<Session> OpenCheckedPlan(const PlanRequest& request, const CheckRequest& check);
// The same for an opened plan.
absl::StatusOr<Session> CheckedSession(Session opened, const CheckRequest& check);

// OpenPlan, lowered with the collectives that cost something, checked, and simulated. Errors, too:
// messages as written for a file without messages.
absl::StatusOr<Session> OpenSimulated(const PlanRequest& request, const CostRequest& costs,
                                      const MessageRequest& messages);
// The same for an opened plan.
absl::StatusOr<Session> SimulatedSession(Session opened, const CostRequest& costs,
                                         const MessageRequest& messages);

// A `.timeline` as recorded, with its plan if one performs it.
absl::StatusOr<Session> OpenRecorded(const std::string& file);
absl::StatusOr<Session> RecordedSession(Source source);

// OpenSimulated or OpenRecorded, by the file's kind. An error if parameters or costs are given for
// a `.timeline`.
absl::StatusOr<Session> OpenStep(const PlanRequest& request, const CostRequest& costs,
                                 const MessageRequest& messages);

// InvalidArgument for a plan with a line `messages`, from a command that issues messages in its own
// way; `does` says what it does.
absl::Status RefuseIssued(const Session& session, absl::string_view does);

// Session::links for its plan and, if it has one, its timeline.
std::shared_ptr<const Wiring> LinksOf(const Session& session);

// The phases between, for callers that begin with a text (an editor) or repeat a phase (a sweep).

// The parameters of the file's schedule with this name ("": its last). The file has a schedule.
std::vector<std::string> ParameterNames(const ast::File& file, const std::string& schedule);

// InvalidArgument when a parameter without a default is not among those names.
absl::Status CheckAllGiven(const ast::File& file, const std::string& schedule,
                           const std::vector<std::string>& given);
// The same, and an error for a given name that is no parameter.
absl::Status CheckGiven(const ast::File& file, const std::string& schedule,
                        const std::vector<std::string>& given);

// Elaborate, but nothing after a finding.
std::optional<Plan> ElaboratedPlan(const ast::File& file, const std::string& schedule,
                                   const std::vector<Parameter>& parameters,
                                   Diagnostics* diagnostics, const ElaborateLimits& limits = {});

// The plan lowered, with those of these collectives that it leaves out, and with reductions for the
// replicas of its pipes. A lowered plan keeps its messages. A run performs this plan as it is, so
// the checked plan is the plan that runs.
Plan LoweredPlan(Plan plan, CommLayout layout, const CollectiveChoice& collectives = {});

// The plan that a simulation of `plan` performs: of a plan with a window its lists as performed at
// these costs (sim/ready_order.h), once the plan is proven; every other plan itself. Nothing after
// a finding. Errors: costs that ready order does not know.
absl::StatusOr<std::optional<Plan>> PlanPerformed(Plan plan, const CheckOptions& options,
                                                  const CostModel& costs, Diagnostics* diagnostics);

// Elaborated or read -> lowered and checked, also for the purpose of these collectives; nothing
// after a finding.
std::optional<Plan> CheckedPlan(Plan plan, CheckOptions options, Diagnostics* diagnostics,
                                const CollectiveChoice& collectives = {});

// The options of a plan's check, and the collectives added before.
struct ResolvedCheck {
  CheckOptions options;
  CollectiveChoice collectives;
};
// The most bytes that ranks may hold: as given, or else the capacity in the costs (or null).
// InvalidArgument for limits of more ranks than the plan has, or of too few in a list for each
// rank.
absl::StatusOr<MemoryLimit> MemoryLimitOf(const MemoryLimit& said, const CostModel* costs,
                                          int ranks);
// The same for copies on the hosts of ranks.
absl::StatusOr<MemoryLimit> HostLimitOf(const MemoryLimit& said, const CostModel* costs, int ranks);

// Errors: a model that cannot be read, or that the plan's stages do not divide; a limit in bytes
// without sizes of stages. `costs`: the request's costs for this plan, or null.
absl::StatusOr<ResolvedCheck> ResolveCheck(const CheckRequest& request, const Plan& plan,
                                           const CostModel* costs = nullptr);

// Costs for any plan. Errors: those of ParseCosts and ReadCostFile; a slow rank or link given
// twice.
absl::StatusOr<StepCosts> FindCosts(const CostRequest& request);
// InvalidArgument for a link of the costs over which none of these plans sends a message.
absl::Status CheckLinksOfSome(const StepCosts& costs, absl::Span<const Plan* const> plans);
// Costs for this plan. Errors: those of ResolveCosts; a slow rank or link that the plan does not
// have; a slow link whose messages take no time.
absl::StatusOr<CostModel> ResolveCosts(const StepCosts& costs, const Plan& plan);
absl::StatusOr<CostModel> CostsFor(const CostRequest& request, const Plan& plan);

// Simulate. Error: fewer receive buffers than the plan needs.
absl::StatusOr<Timeline> SimulatedStep(const Plan& checked, const Wiring& wiring,
                                       const CostModel& costs);
// The same in the place of a step of this plan that was simulated before (SimulateAgain).
absl::Status SimulateStepAgain(const Plan& checked, const Wiring& wiring, const CostModel& costs,
                               Timeline* timeline);

}  // namespace stringline
