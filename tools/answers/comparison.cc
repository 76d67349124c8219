#include "tools/answers/comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/answers/order_note.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr size_t kMostListed = 10;

std::string Signed(double ns) {
  const auto whole = std::llround(std::abs(ns));
  return absl::StrCat(whole == 0 ? "" : ns < 0 ? "-" : "+", PrintTime(whole));
}

std::string Time(double ns) { return PrintTime(std::llround(ns)); }

void PrintTerms(const Difference& difference, const Timeline& first, const Timeline& second,
                std::ostream& out) {
  const double change = static_cast<double>(difference.second_ns - difference.first_ns);
  out << absl::StreamFormat(
      "\nfirst  %13s   %s\nsecond %13s   %s\n       %13s   %+.2f %%\n\n",
      PrintTime(difference.first_ns), PrintBubble(MeasureBubbles(first)),
      PrintTime(difference.second_ns), PrintBubble(MeasureBubbles(second)), Signed(change),
      difference.first_ns == 0 ? 0.0 : 100 * change / static_cast<double>(difference.first_ns));
  out << absl::StreamFormat("  %-18s %13s %13s %13s\n", "a rank's average", "first", "second",
                            "difference");
  double sum = 0;
  for (const DifferenceTerm& term : difference.terms) {
    sum += term.change_ns();
    out << absl::StreamFormat("  %-18s %13s %13s %13s\n", term.name, Time(term.first_ns),
                              Time(term.second_ns), Signed(term.change_ns()));
  }
  out << absl::StreamFormat("  %-18s %13s %13s %13s\n", "all", "", "", Signed(sum));
  out << absl::StreamFormat(
      "\n  %d computations are in both; %d only in the first, %d only in the "
      "second\n",
      difference.matched, difference.only_first, difference.only_second);
  if (difference.actions.empty()) return;
  out << absl::StreamFormat("\n  %-10s %6s %13s %13s %13s\n", "each takes", "times", "first",
                            "second", "difference");
  for (size_t i = 0; i < std::min(difference.actions.size(), kMostListed); ++i) {
    const ActionDifference& action = difference.actions[i];
    out << absl::StreamFormat("  %-10s %6d %13s %13s %13s\n",
                              absl::StrCat(PrintedKind(second.rows, action.kind), " ",
                                           PrintStage(second.pipes, action.stage)),
                              action.count, Time(action.first_ns), Time(action.second_ns),
                              Signed(action.change_ns()));
  }
  if (difference.actions.size() > kMostListed) {
    out << absl::StreamFormat("  … and %d more\n", difference.actions.size() - kMostListed);
  }
}

// Both are simulated at costs of a stage, and have not as many.
bool DoesUnequalWork(const Comparison& of) {
  for (const Session* side : {&of.first, &of.second}) {
    if (side->kind == FileKind::kTimeline || side->costs_of_model) return false;
  }
  return StagesOfModel(*of.first.plan) != StagesOfModel(*of.second.plan);
}

// A line for each side whose order was made for other costs (OrderNote).
void PrintOrderNotes(const Comparison& of, std::ostream& out) {
  for (const Session* side : {&of.first, &of.second}) {
    const std::string note = side->costs ? OrderNote(*side->plan, *side->costs) : "";
    if (!note.empty()) out << "\n" << (side == &of.first ? "first: " : "second: ") << note << "\n";
  }
}

}  // namespace

void PrintComparison(const Comparison& comparison, std::ostream& out) {
  const Timeline& first = *comparison.first.timeline;
  const Timeline& second = *comparison.second.timeline;
  PrintTerms(comparison.difference, first, second, out);
  PrintOrderNotes(comparison, out);
  if (!DoesUnequalWork(comparison)) return;
  out << "\n"
      << PrintUnequalWork(first.schedule, StagesOfModel(*comparison.first.plan), second.schedule,
                          StagesOfModel(*comparison.second.plan));
}

Json ComparisonAsJson(const Comparison& comparison) {
  const Difference& difference = comparison.difference;
  const Timeline& first = *comparison.first.timeline;
  const Timeline& second = *comparison.second.timeline;
  Json terms = Json::array();
  for (const DifferenceTerm& term : difference.terms) {
    terms.push_back({{"name", term.name},
                     {"first_us", term.first_ns / 1e3},
                     {"second_us", term.second_ns / 1e3},
                     {"difference_us", term.change_ns() / 1e3}});
  }
  Json actions = Json::array();
  for (const ActionDifference& action : difference.actions) {
    actions.push_back({{"kind", PrintedKind(action.kind)},
                       {"stage", PrintStage(second.pipes, action.stage)},
                       {"count", action.count},
                       {"first_us", action.first_ns / 1e3},
                       {"second_us", action.second_ns / 1e3},
                       {"difference_us", action.change_ns() / 1e3}});
  }
  Json json = {{"ok", true},
               {"first_makespan_us", Microseconds(difference.first_ns)},
               {"second_makespan_us", Microseconds(difference.second_ns)},
               {"first_bubble", MeasureBubbles(first).rate},
               {"second_bubble", MeasureBubbles(second).rate},
               {"terms", std::move(terms)},
               {"actions", std::move(actions)},
               {"matched", difference.matched},
               {"only_first", difference.only_first},
               {"only_second", difference.only_second},
               {"unequal_work", DoesUnequalWork(comparison)}};
  for (const Session* side : {&comparison.first, &comparison.second}) {
    Json order = Json::object();
    if (side->costs) AddOrderedFor(*side->plan, *side->costs, &order);
    const char* const name = side == &comparison.first ? "first_" : "second_";
    for (const auto& [key, value] : order.items()) json[absl::StrCat(name, key)] = value;
  }
  return json;
}

}  // namespace stringline
