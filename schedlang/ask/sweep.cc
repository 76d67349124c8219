// A sweep's plans are numbered: schedule by schedule, and point by point. Threads take numbers from
// the end until none is left or one of them has failed; each makes the plan of its number and hands
// it on, and keeps nothing.
#include "schedlang/ask/sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/found_file.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

// The file's schedule; nothing, and *broken, if the file has findings.
absl::StatusOr<std::optional<SweptSchedule>> LoadSwept(const PlanRequest& request,
                                                       std::optional<BrokenFile>* broken) {
  const std::string& path = request.file;
  const std::string& name = request.schedule;
  if (HoldsParameters(request.text ? KindOfText(path, *request.text) : KindOfFile(path))) {
    return absl::InvalidArgumentError(
        path + ": a plan holds its parameters already; `ranges` is for schedules");
  }
  SL_ASSIGN_OR_RETURN(Source source, request.text ? TextOf(path, *request.text) : OpenSource(path));
  Diagnostics findings;
  std::optional<ast::File> file = ParseWithUses(&source, &findings);
  if (!file) {
    *broken = BrokenFile{std::move(source), std::move(findings)};
    return std::nullopt;
  }
  const auto& all = file->schedules;
  const auto found =
      name.empty() ? all.end() - 1 : std::find_if(all.begin(), all.end(), [&name](const auto& s) {
        return s.name.text == name;
      });
  if (found == all.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no schedule '", name, "'"));
  }
  std::string shown = ShownName(source, name, std::string(found->name.text));
  std::vector<std::string> parameters = ParameterNames(*file, name);
  return SweptSchedule{std::move(source),
                       *std::move(file),
                       name,
                       std::move(shown),
                       std::move(parameters),
                       std::make_shared<FoundFile>(path, FoundFile::UseOf(request.again))};
}

// Refuses names that no schedule has as a parameter, and schedules that lack a value for one.
absl::Status CheckNames(const std::vector<SweptSchedule>& schedules,
                        const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const SweptSchedule& swept : schedules) {
    known.insert(swept.parameters.begin(), swept.parameters.end());
  }
  for (const std::string& name : names) {
    if (known.count(name) > 0) continue;
    const std::string close =
        ClosestName(name, std::vector<std::string>(known.begin(), known.end()));
    return absl::InvalidArgumentError(absl::StrCat(
        schedules.size() == 1 ? absl::StrCat("schedule '", schedules[0].name, "' has no parameter")
                              : "no schedule has a parameter",
        " '", name, "'", close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
  }
  for (const SweptSchedule& swept : schedules) {
    SL_RETURN_IF_ERROR(CheckAllGiven(swept.file, swept.schedule, names));
  }
  return absl::OkStatus();
}

class SweepWalk {
 public:
  SweepWalk(const Sweep& sweep, const UsePlan& use, const std::function<bool()>& after_each)
      : sweep_(sweep), use_(use), after_each_(after_each), next_(sweep.plans()) {}

  absl::Status Run(int threads) {
    WorkOnThreads(threads, [this] { Work(); });
    return status_;
  }

 private:
  void Work() {
    while (!failed_) {
      size_t left = next_.load();
      if (left == 0) return;
      if (!next_.compare_exchange_weak(left, left - 1)) continue;
      absl::Status status = Used(left - 1);
      if (!after_each_()) status.Update(absl::CancelledError("stopped"));
      if (status.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failed_.exchange(true)) status_ = status;
    }
  }

  absl::Status Used(size_t index) {
    try {
      Diagnostics findings;
      std::optional<Plan> plan = PlanAt(sweep_, index, &findings);
      return use_(index, std::move(plan), &findings);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("not enough memory for these plans");
    }
  }

  const Sweep& sweep_;
  const UsePlan& use_;
  const std::function<bool()>& after_each_;
  std::atomic<size_t> next_;  // plans from here on are taken
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

std::vector<Parameter> Sweep::ParametersAt(size_t point) const {
  std::vector<Parameter> parameters = fixed;
  for (size_t i = 0; i < points.names.size(); ++i) {
    parameters.push_back({points.names[i], points.at(point)[i]});
  }
  return parameters;
}

std::string Sweep::NameOf(size_t point) const {
  std::string name;
  for (size_t i = 0; i < points.names.size(); ++i) {
    absl::StrAppend(&name, i == 0 ? "" : " ", points.names[i], "=", points.at(point)[i]);
  }
  return name;
}

absl::StatusOr<std::optional<Sweep>> ListSweep(const SweepQuestion& question,
                                               std::optional<BrokenFile>* broken) {
  Sweep sweep{.fixed = question.fixed};
  for (const PlanRequest& asked : question.schedules) {
    SL_ASSIGN_OR_RETURN(std::optional<SweptSchedule> swept, LoadSwept(asked, broken));
    if (!swept) return std::nullopt;
    sweep.schedules.push_back(*std::move(swept));
  }
  std::vector<std::string> names;
  for (const SweepRange& range : question.ranges) names.push_back(range.name);
  for (const Parameter& parameter : question.fixed) names.push_back(parameter.name);
  SL_RETURN_IF_ERROR(CheckNames(sweep.schedules, names));
  if (question.ranges.empty()) {
    return absl::InvalidArgumentError("nothing is to be varied: a parameter needs a range");
  }
  SL_ASSIGN_OR_RETURN(sweep.points, Enumerate(question.ranges, question.fixed));
  return sweep;
}

std::optional<Plan> PlanAt(const Sweep& sweep, size_t index, Diagnostics* findings) {
  const SweptSchedule& swept = sweep.schedules[index / sweep.points.size()];
  std::vector<Parameter> parameters = sweep.ParametersAt(index % sweep.points.size());
  const auto& known = swept.parameters;
  parameters.erase(std::remove_if(parameters.begin(), parameters.end(),
                                  [&known](const Parameter& parameter) {
                                    return std::find(known.begin(), known.end(), parameter.name) ==
                                           known.end();
                                  }),
                   parameters.end());
  return ElaboratedPlan(swept.file, swept.schedule, parameters, findings,
                        {.kept = swept.kept.get()});
}

absl::Status ForEachPlan(const Sweep& sweep, const UsePlan& use, int threads,
                         const std::function<bool()>& after_each) {
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return SweepWalk(sweep, use, after_each).Run(threads);
}

}  // namespace stringline
