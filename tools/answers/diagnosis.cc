// Findings come in the order in which they explain each other: calls that do not agree, then ranks
// that others wait for, then circles. Each says the fact first, and then the calls with their sizes
// and places in the code.
#include "tools/answers/diagnosis.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/answers/called.h"

namespace stringline {
namespace {

constexpr size_t kMostSteps = 12;

const char* NameOf(Disagreement about) {
  constexpr const char* kNames[] = {"call", "size", "dtype"};
  return kNames[static_cast<int>(about)];
}
const char* NameOf(Hint hint) {
  constexpr const char* kNames[] = {"none", "swapped", "left out", "surplus"};
  return kNames[static_cast<int>(hint)];
}
const char* NameOf(BehindWhy why) {
  constexpr const char* kNames[] = {"late", "stuck", "no dump", "cut short"};
  return kNames[static_cast<int>(why)];
}
const char* NameOf(Lack lack) {
  constexpr const char* kNames[] = {"not made", "behind", "no dump"};
  return kNames[static_cast<int>(lack)];
}

class DiagnosisPrinter {
 public:
  DiagnosisPrinter(const Records& records, const Diagnosis& diagnosis, const CalledWords& words,
                   std::ostream& out)
      : records_(records), diagnosis_(diagnosis), words_(words), out_(out) {}

  void Print() {
    for (const Mismatch& mismatch : diagnosis_.mismatches) PrintMismatch(mismatch);
    for (const Behind& behind : diagnosis_.behind) PrintBehind(behind);
    for (const std::vector<WaitStep>& circle : diagnosis_.circles) PrintCircle(circle);
    for (const std::vector<CallAt>& calls : diagnosis_.given_up) {
      out_ << "timed out: " << words_.Name(calls.front()) << " of "
           << words_.Group(records_.At(calls.front()).group)
           << ", which all its ranks have made with the same sizes: the network, or a device\n"
           << "  " << NameRanks(words_.RanksOf(calls)) << ": " << words_.Details(calls.front())
           << "\n";
    }
  }

 private:
  void PrintMismatch(const Mismatch& mismatch) {
    const CallAt& first = mismatch.sides.front().front();
    constexpr const char* kAbout[] = {"are not the same call", "have other sizes",
                                      "have other dtypes"};
    const char* const about = kAbout[static_cast<int>(mismatch.about)];
    if (mismatch.pair >= 0) {
      const CallAt& receive = mismatch.sides[1].front();
      out_ << "mismatch: a send from rank " << words_.RankOf(first) << " to rank "
           << words_.RankOf(receive) << " and its recv " << about << "\n";
    } else {
      const Meeting& meeting = diagnosis_.partners.meetings[mismatch.meeting];
      out_ << "mismatch: calls #" << meeting.sequence << " of " << words_.Group(meeting.group)
           << " " << about << "\n";
    }
    for (const std::vector<CallAt>& side : mismatch.sides) {
      out_ << "  " << NameRanks(words_.RanksOf(side)) << ": " << words_.Whole(side.front()) << "\n";
    }
    PrintHint(mismatch);
    PrintPlanned("  ", mismatch.pair, first);
  }

  void PrintHint(const Mismatch& mismatch) {
    if (mismatch.hint == Hint::kNone) return;
    const std::string most = words_.Name(mismatch.sides[0].front());
    const std::string odd = words_.Name(mismatch.sides[1].front());
    out_ << "  " << NameRanks(words_.RanksOf(mismatch.sides[1])) << " ";
    switch (mismatch.hint) {
      case Hint::kSwapped:
        out_ << "may have swapped two calls: the next ones are the same the other way round\n";
        break;
      case Hint::kLeftOut:
        out_ << "may have left out " << most << ": " << odd << " is what the others call next\n";
        break;
      default:
        out_ << "may have called " << odd << " too much: next comes what the others call here\n";
    }
  }

  void PrintPlanned(const char* indent, int pair, const CallAt& at) {
    const std::string planned = words_.Planned(pair, at);
    if (!planned.empty()) out_ << indent << "in the schedule: " << planned << "\n";
  }

  void PrintBehind(const Behind& behind) {
    const std::string ranks = NameRanks(behind.ranks);
    const bool one = behind.ranks.size() == 1;
    out_ << "behind: " << ranks;
    switch (behind.why) {
      case BehindWhy::kLate:
        out_ << (one ? " is" : " are") << " late: all that it called has ended";
        break;
      case BehindWhy::kStuck:
        out_ << (one ? " is" : " are") << " in a call that all its ranks have made";
        break;
      case BehindWhy::kNoDump:
        out_ << (one ? " has" : " have") << " no dump: dead, or its file is missing";
        break;
      case BehindWhy::kCutShort:
        out_ << ": the dump " << records_.Find(behind.ranks.front())->cut_short;
    }
    out_ << "\n";
    if (behind.held >= 0) {
      const HeldCall& held = diagnosis_.waits.held[behind.held];
      const CallAt& example = held.waiting.front();
      out_ << "  " << NameRanks(words_.RanksOf(held.waiting))
           << (held.has_failed            ? " gave up in "
               : held.waiting.size() == 1 ? " waits in "
                                          : " wait in ")
           << words_.Whole(example) << "\n";
      PrintPlanned("  ", held.pair, example);
    }
    if (behind.last) {
      out_ << "  the last call of rank " << behind.ranks.front() << ": "
           << words_.Whole(*behind.last) << "\n";
    }
    if (behind.divergence) {
      out_ << "  from " << words_.Name(behind.divergence->late)
           << " on it calls from another place: " << words_.Details(behind.divergence->late)
           << "; rank " << words_.RankOf(behind.divergence->other) << " from "
           << words_.Details(behind.divergence->other) << "\n";
    }
    if (behind.chain.size() > 1) PrintChain(behind);
  }

  void PrintChain(const Behind& behind) {
    out_ << "  " << behind.waiting << " ranks wait for it, some over others; the longest chain:\n";
    PrintSteps(behind.chain);
  }

  void PrintSteps(const std::vector<WaitStep>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i + 1 == kMostSteps && steps.size() > kMostSteps) {
        out_ << "    … " << steps.size() - kMostSteps << " more\n";
        i = steps.size() - 1;
      }
      const WaitStep& step = steps[i];
      out_ << "    rank " << words_.RankOf(step.call) << " waits for rank " << step.lacking.rank
           << " in " << words_.Name(step.call) << LackText(step.lacking) << "\n";
      const std::string details = words_.Details(step.call);
      if (!details.empty()) out_ << "      " << details << "\n";
      PrintPlanned("      ", diagnosis_.waits.held[step.held].pair, step.call);
    }
  }

  std::string LackText(const Lacking& lacking) const {
    switch (lacking.lack) {
      case Lack::kNotMade:
        return ", which has not made its part";
      case Lack::kNoDump:
        return ", which has no whole dump";
      case Lack::kBehind:
        break;
    }
    return absl::StrCat(", which has its part behind ", words_.Name(lacking.behind));
  }

  void PrintCircle(const std::vector<WaitStep>& circle) {
    out_ << "circle: " << circle.size()
         << (circle.size() == 1 ? " rank waits for itself" : " ranks wait for each other") << "\n";
    PrintSteps(circle);
  }

  const Records& records_;
  const Diagnosis& diagnosis_;
  const CalledWords& words_;
  std::ostream& out_;
};

size_t CallsOf(const Records& records) {
  size_t calls = 0;
  for (const RankRecord& rank : records.ranks) calls += rank.calls.size();
  return calls;
}

int WholeDumps(const Records& records) {
  return static_cast<int>(std::count_if(records.ranks.begin(), records.ranks.end(),
                                        [](const RankRecord& r) { return r.cut_short.empty(); }));
}

// The limits of what the dumps tell.
std::vector<std::string> NotesOf(const Records& records, const Diagnosis& diagnosis,
                                 const CalledWords& words, bool has_plan) {
  std::vector<std::string> notes;
  if (!diagnosis.without_dump.empty()) {
    notes.push_back(absl::StrCat("nothing is known of ", NameRanks(diagnosis.without_dump),
                                 ", without a dump; no call waits for it"));
  }
  if (diagnosis.dropped) {
    notes.push_back(
        "recorders overwrote their first calls (TORCH_FR_BUFFER_SIZE): messages are counted from "
        "the first that has not ended, and are none of the schedule's");
  }
  if (has_plan && words.planned_groups().empty()) {
    notes.push_back("no group with as many ranks as the schedule has messages");
  }
  for (const RecordedGroup& group : records.groups) {
    if (group.is_listed || group.members.empty()) continue;
    notes.push_back(
        "the dumps do not list the members of some groups (gloo): those that called are taken");
    break;
  }
  return notes;
}

// The calls that an answer names, each once: elsewhere stands its place in the list.
class NamedCalls {
 public:
  NamedCalls(const Diagnosis& diagnosis, const CalledWords& words)
      : diagnosis_(diagnosis), words_(words) {}

  // `pair`: of a message, or -1. Null for no call.
  Json Add(const CallAt& at, int pair = -1) {
    if (at.call < 0) return nullptr;
    const auto [found, is_new] = places_.try_emplace({at.rank, at.call}, calls_.size());
    if (is_new) {
      calls_.push_back(words_.AsJson(at));
      calls_.back()["planned"] = nullptr;
    }
    if (pair >= 0) calls_[found->second]["planned"] = words_.PlannedAsJson(pair, at);
    return found->second;
  }
  Json AddSteps(const std::vector<WaitStep>& steps) {
    Json list = Json::array();
    for (const WaitStep& step : steps) {
      list.push_back({{"rank", words_.RankOf(step.call)},
                      {"call", Add(step.call, diagnosis_.waits.held[step.held].pair)},
                      {"for_rank", step.lacking.rank},
                      {"lack", NameOf(step.lacking.lack)},
                      {"behind", Add(step.lacking.behind)}});
    }
    return list;
  }
  Json Take() { return std::move(calls_); }

 private:
  const Diagnosis& diagnosis_;
  const CalledWords& words_;
  Json calls_ = Json::array();
  std::map<std::pair<int32_t, int32_t>, size_t> places_;
};

Json MismatchAsJson(const Diagnosis& diagnosis, const CalledWords& words, const Mismatch& mismatch,
                    NamedCalls* calls) {
  Json sides = Json::array();
  for (const std::vector<CallAt>& side : mismatch.sides) {
    sides.push_back(
        {{"ranks", words.RanksOf(side)}, {"call", calls->Add(side.front(), mismatch.pair)}});
  }
  Json sequence;
  if (mismatch.meeting >= 0) {
    sequence = diagnosis.partners.meetings[mismatch.meeting].sequence;
  }
  return {{"about", NameOf(mismatch.about)},
          {"sequence", sequence},
          {"sides", std::move(sides)},
          {"hint", NameOf(mismatch.hint)}};
}

Json BehindAsJson(const Diagnosis& diagnosis, const CalledWords& words, const Behind& behind,
                  NamedCalls* calls) {
  Json json = {{"why", NameOf(behind.why)},
               {"ranks", behind.ranks},
               {"waiting", behind.waiting},
               {"waiting_ranks", Json::array()},
               {"waiting_call", nullptr},
               {"gave_up", false},
               {"last_call", behind.last ? calls->Add(*behind.last) : Json()},
               {"diverges", nullptr},
               {"chain", calls->AddSteps(behind.chain)}};
  if (behind.held >= 0) {
    const HeldCall& held = diagnosis.waits.held[behind.held];
    json["waiting_ranks"] = words.RanksOf(held.waiting);
    json["waiting_call"] = calls->Add(held.waiting.front(), held.pair);
    json["gave_up"] = held.has_failed;
  }
  if (behind.divergence) {
    json["diverges"] = {{"late", calls->Add(behind.divergence->late)},
                        {"other", calls->Add(behind.divergence->other)}};
  }
  return json;
}

}  // namespace

void PrintDiagnosis(const Records& records, const Diagnosis& diagnosis,
                    const std::optional<DiagnosedPlan>& planned, std::ostream& out) {
  const CalledWords words(records, diagnosis, planned);
  out << records.world << (records.world == 1 ? " rank, " : " ranks, ") << WholeDumps(records)
      << (WholeDumps(records) == 1 ? " dump, " : " dumps, ") << CallsOf(records) << " calls\n";
  DiagnosisPrinter(records, diagnosis, words, out).Print();
  if (diagnosis.IsClean()) {
    out << "ok: no rank waits for a call that another has not made, and calls agree";
    if (diagnosis.under_way > 0) out << "; " << diagnosis.under_way << " are under way";
    out << "\n";
  }
  for (const std::string& note : NotesOf(records, diagnosis, words, planned.has_value())) {
    out << "note: " << note << "\n";
  }
}

Json DiagnosisAsJson(const Records& records, const Diagnosis& diagnosis,
                     const std::optional<DiagnosedPlan>& planned) {
  const CalledWords words(records, diagnosis, planned);
  NamedCalls calls(diagnosis, words);
  Json mismatches = Json::array(), behind = Json::array(), circles = Json::array();
  Json given_up = Json::array();
  for (const Mismatch& mismatch : diagnosis.mismatches) {
    mismatches.push_back(MismatchAsJson(diagnosis, words, mismatch, &calls));
  }
  for (const Behind& one : diagnosis.behind) {
    behind.push_back(BehindAsJson(diagnosis, words, one, &calls));
  }
  for (const std::vector<WaitStep>& circle : diagnosis.circles) {
    circles.push_back({{"steps", calls.AddSteps(circle)}});
  }
  for (const std::vector<CallAt>& one : diagnosis.given_up) {
    given_up.push_back({{"ranks", words.RanksOf(one)}, {"call", calls.Add(one.front())}});
  }
  return {{"ok", diagnosis.IsClean()},
          {"ranks", records.world},
          {"dumps", WholeDumps(records)},
          {"recorded", CallsOf(records)},
          {"mismatches", std::move(mismatches)},
          {"behind", std::move(behind)},
          {"circles", std::move(circles)},
          {"timed_out", std::move(given_up)},
          {"under_way", diagnosis.under_way},
          {"without_dump", diagnosis.without_dump},
          {"calls", calls.Take()},
          {"notes", NotesOf(records, diagnosis, words, planned.has_value())}};
}

}  // namespace stringline
