// The question of a search: from parameters, a placement and limits to the problems that are
// searched (search_session.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/stop.h"
#include "schedlang/memory/memory_limit.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem_of.h"

namespace stringline {

struct SearchQuestion {
  std::vector<Parameter> parameters;  // P and M, or those of the schedule in `begin`
  // A schedule, without its parameters: its order is the first, and its stages stay where they are.
  std::optional<PlanRequest> begin;
  std::string place;       // line, v, "loop N", "wave N" or any; "": line
  bool any_split = false;  // the layers of each stage are searched, too
  int layers = -1;         // that are shared out; -1: as the model's shape says
  search::Objective minimize = search::Objective::kMakespan;
  std::string jitter;    // draws of the step's times, as SetJitter takes it
  int seeds = 0;         // so many of them; 0: kUsualDraws if there is a jitter, else none
  std::string expect;    // of the draws: mean or worst; "": mean
  int activations = -1;  // most of a rank; -1: no limit
  MemoryLimit memory;    // bytes
  MemoryLimit host;      // bytes of copies on a rank's host
  bool whole = true;     // B may be used
  bool split = true;     // I and W may be used
  bool pairs = false;
  SearchRecompute recompute = SearchRecompute::kAsCosts;
  SearchOffload offload = SearchOffload::kNone;
  CostRequest costs;
  double seconds = 10;
  int iterations = 0;  // instead of a time; 0: as many as the time allows
  int seed = 1;
};

// "none", "all" or "any"; any other word: as the costs say.
SearchRecompute SearchRecomputeOf(absl::string_view word);

// The same of "none", "all" or "any"; any other word: none.
SearchOffload SearchOffloadOf(absl::string_view word);

// The value of an expression over the parameters of a question: the most activations of a rank, -1
// for "". Errors name `activations`.
absl::StatusOr<int> MostActivations(const std::string& expression,
                                    const std::vector<Parameter>& parameters);

// `stop` (null: never) is the request's, too. Errors name fields: questions that cannot be, or do
// not go together; Cancelled where `stop` is wished while a file is read.
absl::StatusOr<SearchRequest> SearchRequestOf(const SearchQuestion& question, const Stop* stop);

}  // namespace stringline
