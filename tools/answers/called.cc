#include "tools/answers/called.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stringline {

std::string PrintRanks(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[i]);
    if (end > i + 1) absl::StrAppend(&text, end == i + 2 ? ", " : "-", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string NameRanks(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", PrintRanks(ranks));
}

CalledWords::CalledWords(const Records& records, const Diagnosis& diagnosis,
                         const std::optional<DiagnosedPlan>& planned)
    : records_(records), diagnosis_(diagnosis), planned_(planned) {
  if (!planned) return;
  for (const Pair& pair : diagnosis.partners.pairs) {
    const auto members = static_cast<int>(records.groups[pair.group].members.size());
    const bool is_known = !planned_groups_.empty() && planned_groups_.back() == pair.group;
    if (members == planned->messages.ranks() && !is_known) planned_groups_.push_back(pair.group);
  }
}

std::vector<int> CalledWords::RanksOf(const std::vector<CallAt>& calls) const {
  std::vector<int> ranks;
  for (const CallAt& at : calls) ranks.push_back(RankOf(at));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

int CalledWords::MemberOf(int32_t group, int end) const {
  const std::vector<int>& members = records_.groups[group].members;
  return end >= 0 && end < static_cast<int>(members.size()) ? members[end] : end;
}

std::string CalledWords::Name(const CallAt& at) const {
  const RecordedCall& call = records_.At(at);
  const CallShape& shape = records_.ShapeOf(at);
  if (shape.IsSend()) return absl::StrCat("send to rank ", MemberOf(call.group, shape.to));
  if (shape.IsReceive() && shape.from < 0) return "recv from any rank";
  if (shape.IsReceive()) return absl::StrCat("recv from rank ", MemberOf(call.group, shape.from));
  return absl::StrCat(shape.name, " #", call.sequence);
}

std::string CalledWords::Details(const CallAt& at) const {
  const RecordedCall& call = records_.At(at);
  const CallShape& shape = records_.ShapeOf(at);
  std::string text = shape.IsReceive() ? shape.outputs : shape.inputs;
  if (!shape.IsMessage() && shape.outputs != shape.inputs) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "-> ", shape.outputs);
  }
  if (call.place < 0) return text;
  const CodePlace& place = records_.places[call.place];
  absl::StrAppend(&text, text.empty() ? "" : ", ", place.file, ":", place.line, " in ",
                  place.function);
  return text;
}

std::string CalledWords::Group(int32_t group) const {
  const RecordedGroup& found = records_.groups[group];
  const bool is_described = !found.description.empty() && found.description != "undefined";
  return absl::StrCat("group ", found.name,
                      is_described ? absl::StrCat(" (", found.description, ")") : "");
}

namespace {

const char* StateOf(const RecordedCall& call) {
  if (call.state == CallState::kEnded) return "ended";
  if (call.timed_out) return "timed out";
  return call.state == CallState::kStarted ? "started" : "scheduled";
}

}  // namespace

std::string CalledWords::Whole(const CallAt& at) const {
  const std::string details = Details(at);
  return absl::StrCat(Name(at), " of ", Group(records_.At(at).group), ", ",
                      StateOf(records_.At(at)), details.empty() ? "" : ": ", details);
}

std::optional<PlannedMessage> CalledWords::PlannedOf(int pair, const CallAt& at) const {
  if (!planned_ || pair < 0 || at.call < 0) return std::nullopt;
  const Pair& messages = diagnosis_.partners.pairs[pair];
  if (std::find(planned_groups_.begin(), planned_groups_.end(), messages.group) ==
      planned_groups_.end()) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = NumberOf(records_, messages, at);
  if (!number) return std::nullopt;
  return planned_->messages.Of(messages.from, messages.to, *number);
}

std::string CalledWords::Planned(int pair, const CallAt& at) const {
  const std::optional<PlannedMessage> found = PlannedOf(pair, at);
  if (!found) return "";
  const Plan& plan = planned_->lowered;
  return absl::StrCat(PrintWithLine(plan, *found->send), ", ", PrintWithLine(plan, *found->receive),
                      ", in step ", found->round);
}

Json CalledWords::AsJson(const CallAt& at) const {
  if (at.call < 0) return nullptr;
  const RecordedCall& call = records_.At(at);
  const CallShape& shape = records_.ShapeOf(at);
  Json json = {{"rank", RankOf(at)},
               {"name", shape.name},
               {"group", records_.groups[call.group].name},
               {"group_description", records_.groups[call.group].description},
               {"sequence", call.sequence},
               {"record", call.record},
               {"state", StateOf(call)},
               {"inputs", shape.inputs},
               {"outputs", shape.outputs},
               {"from", nullptr},
               {"to", nullptr},
               {"file", nullptr},
               {"line", nullptr},
               {"function", nullptr}};
  if (shape.IsMessage()) {
    if (shape.from >= 0) json["from"] = MemberOf(call.group, shape.from);
    json["to"] = MemberOf(call.group, shape.to);
  }
  if (call.place >= 0) {
    const CodePlace& place = records_.places[call.place];
    json["file"] = place.file;
    json["line"] = place.line;
    json["function"] = place.function;
  }
  return json;
}

Json CalledWords::PlannedAsJson(int pair, const CallAt& at) const {
  const std::optional<PlannedMessage> found = PlannedOf(pair, at);
  if (!found) return nullptr;
  const Plan& plan = planned_->lowered;
  Json json = {{"send", Print(plan, *found->send)},
               {"receive", Print(plan, *found->receive)},
               {"step", found->round},
               {"file", nullptr},
               {"line", nullptr}};
  if (plan.source) {
    const uint32_t begin = SpanOf(plan, *found->send).begin;
    json["file"] = plan.source->PathAt(begin);
    json["line"] = plan.source->Locate(begin).line;
  }
  return json;
}

}  // namespace stringline
