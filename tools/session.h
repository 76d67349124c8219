// From a file to where a step's time goes, as values: source, plan, lowered, checked, costs,
// timeline. Every command, the sweeps, the editor's findings and `run` go this way, so that one
// place knows each of: how a file's kind is told, when collectives are added, how costs are found,
// and what is checked.
//
// What is asked for comes as plain structs: from a command line (requests.h), a run file, a test.
// Findings about the text are in Session::diagnostics; a Status is for what cannot be judged at
// all: a file that cannot be read, parameters for a file that holds its own, costs that do not fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/plan.h"
#include "schedlang/sharding.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

enum class FileKind : uint8_t { kSchedule, kPlan, kTorch, kTimeline };
// By the end of its name: .plan, .csv, .timeline; anything else is a schedule. Standard input by
// how it begins, so it must not have been read yet.
FileKind KindOfFile(absl::string_view path);
// Of a text that is called so: by the end of that name, or else by how it begins behind comments.
FileKind KindOfText(absl::string_view name, absl::string_view text);
// A plan or a schedule of torch's: its parameters are in it.
inline bool HoldsParameters(FileKind kind) {
  return kind == FileKind::kPlan || kind == FileKind::kTorch;
}

struct PlanRequest {
  std::string file;      // with a text: only what messages call it
  std::string schedule;  // which one of the file; "" for its last
  std::vector<Parameter> parameters;
  std::vector<Parameter> offered;        // given if the schedule has a parameter of that name
  bool again = false;                    // search for orders, whatever is kept (found_file.h)
  std::optional<std::string> text = {};  // what is read in the place of the file
};

struct SlowRank {
  int rank = 0;
  int64_t share = 0;  // how much slower it computes, in millionths
};

// Costs as text, or else from a file, or else UnitCosts.
struct CostRequest {
  std::string text;
  std::string file;
  std::optional<std::string> file_text = {};  // what is read in the place of the file
  std::vector<SlowRank> slow;
  std::string work;  // what the costs are of, "stage", "rank" or "model"; "": as the file says
  CopiesRequest copies;

  bool IsGiven() const { return !text.empty() || !file.empty() || file_text || copies.IsGiven(); }
};

// Costs for any plan.
struct StepCosts {
  CostSpec spec;
  std::vector<SlowRank> slow;
};

// When a send or a receive begins, beside what its queue and its value allow.
enum class MessageIssue : uint8_t {
  kEarly,      // at once
  kAsWritten,  // when all that its rank lists before it has ended (WiringAsWritten)
};

struct MessageRequest {
  CommLayout layout = CommLayout::kEdge;
  MessageIssue issue = MessageIssue::kEarly;
};

struct CheckRequest {
  CommLayout layout = CommLayout::kEdge;
  int buffers = 0;  // as in CheckOptions, like the next two
  bool lazy = false;
  int activations = -1;
  std::string model;   // a run file whose model the stages hold; "": the costs say the sizes
  MemoryLimit memory;  // most bytes a rank may hold; where none is said, what the costs say
  CostRequest costs;   // of memory, and of what copies of the pipeline share
  CollectiveChoice collectives;  // what a run does beside what the schedule says
};

// A file and what was made of it so far. Without findings, what was asked for is there.
struct Session {
  Source source;
  FileKind kind = FileKind::kSchedule;
  Diagnostics diagnostics;
  std::optional<Plan> plan;  // a recorded step: nothing if no plan performs it (PlanOf)
  // Of a torch `.csv`: as in TorchFile.
  std::vector<TorchWait> waits;
  bool legacy = false;
  CheckOptions checked_for;                   // what the plan was checked for, if it was
  MessageIssue issue = MessageIssue::kEarly;  // in what was simulated
  std::optional<CostModel> costs;             // of what was simulated
  std::optional<StepCosts> asked;             // what these were resolved from
  std::optional<Plan> written;                // where it got collectives: the plan without
  bool costs_of_model = false;                // CostSpec::IsOfModel
  std::optional<Timeline> timeline;
};

// The plan as the file has it, a schedule's elaborated. Not for a `.timeline`.
absl::StatusOr<Session> OpenPlan(const PlanRequest& request);

// OpenPlan, lowered and checked: the plan is there only if the checker has nothing to say.
absl::StatusOr<Session> OpenCheckedPlan(const PlanRequest& request, const CheckRequest& check);
// The same with what OpenPlan gave.
absl::StatusOr<Session> CheckedSession(Session opened, const CheckRequest& check);

// OpenPlan, lowered with the collectives that cost something, checked, and simulated. Errors, too:
// messages as they are written of a file that has none.
absl::StatusOr<Session> OpenSimulated(const PlanRequest& request, const CostRequest& costs,
                                      const MessageRequest& messages);
// The same with what OpenPlan gave.
absl::StatusOr<Session> SimulatedSession(Session opened, const CostRequest& costs,
                                         const MessageRequest& messages);

// A `.timeline` as it is, with its plan if one performs it.
absl::StatusOr<Session> OpenRecorded(const std::string& file);
absl::StatusOr<Session> RecordedSession(Source source);

// The one or the other, by the file's kind. An error if parameters or costs are given for a
// `.timeline`.
absl::StatusOr<Session> OpenStep(const PlanRequest& request, const CostRequest& costs,
                                 const MessageRequest& messages);

// What waited for what in the session's timeline, and where its time goes. `session` has a plan and
// a timeline.
Wiring WiringOf(const Session& session);
Analysis AnalysisOf(const Session& session);

// The phases between, for those that begin with a text (an editor) or do a phase many times (a
// sweep).

// The parameters of the file's schedule of that name ("": its last). The file has one.
std::vector<std::string> ParameterNames(const ast::File& file, const std::string& schedule);

// InvalidArgument when a parameter without a default is not among those names.
absl::Status CheckAllGiven(const ast::File& file, const std::string& schedule,
                           const std::vector<std::string>& given);
// The same, and when one of them is no parameter.
absl::Status CheckGiven(const ast::File& file, const std::string& schedule,
                        const std::vector<std::string>& given);

// Elaborate, but nothing after a finding.
std::optional<Plan> ElaboratedPlan(const ast::File& file, const std::string& schedule,
                                   const std::vector<Parameter>& parameters,
                                   Diagnostics* diagnostics, const ElaborateLimits& limits = {});

// The plan lowered, with those of these collectives that the schedule does not say itself. One that
// is lowered already stays as it is.
Plan LoweredPlan(Plan plan, CommLayout layout, const CollectiveChoice& collectives = {});

// Elaborated or read -> lowered and checked, also for what these collectives are for; nothing after
// a finding.
std::optional<Plan> CheckedPlan(Plan plan, CheckOptions options, Diagnostics* diagnostics,
                                const CollectiveChoice& collectives = {});

// What a plan is checked for, and the collectives that it gets before.
struct ResolvedCheck {
  CheckOptions options;
  CollectiveChoice collectives;
};
// The most bytes that ranks may hold: what was said, or else what the costs (or null) know of it.
// InvalidArgument for a rank that there is not, or where not each has the one that it should.
absl::StatusOr<MemoryLimit> MemoryLimitOf(const MemoryLimit& said, const CostModel* costs,
                                          int ranks);

// Errors: a model that cannot be read, or that the plan's stages do not divide; a limit in bytes
// where nothing says how many a stage has. `costs`: those of the request for this plan, or null.
absl::StatusOr<ResolvedCheck> ResolveCheck(const CheckRequest& request, const Plan& plan,
                                           const CostModel* costs = nullptr);

// Costs for any plan. Errors: those of ParseCosts and ReadCostFile.
absl::StatusOr<StepCosts> FindCosts(const CostRequest& request);
// For this one. Errors: those of ResolveCosts; a slow rank that the plan does not have.
absl::StatusOr<CostModel> ResolveCosts(const StepCosts& costs, const Plan& plan);
absl::StatusOr<CostModel> CostsFor(const CostRequest& request, const Plan& plan);

// Simulate. Error: fewer receive buffers than the plan needs.
absl::StatusOr<Timeline> SimulatedStep(const Plan& checked, const Wiring& wiring,
                                       const CostModel& costs);

}  // namespace stringline
