// Lanes and homes are ranges of kinds and values, so a row's own numbers tell where it runs, or
// lives. The text form of a row is a line of words.
#include "schedlang/plan/rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/text_form.h"

namespace stringline {
namespace {

struct RowLaneWords {
  const char* name;
  ActionKind first, last;
};
constexpr RowLaneWords kRowLanes[kRowLaneCount] = {
    {"compute", ActionKind::kOwnCompute0, ActionKind::kOwnCompute5},
    {"network", ActionKind::kOwnNetwork0, ActionKind::kOwnNetwork5},
    {"copy_out", ActionKind::kOwnOut0, ActionKind::kOwnOut2},
    {"copy_in", ActionKind::kOwnIn0, ActionKind::kOwnIn2},
};
const RowLaneWords& RowOf(RowLane lane) { return kRowLanes[static_cast<int>(lane)]; }

struct HomeRow {
  StageValue first, last;
};
constexpr HomeRow kHomeRows[] = {
    {StageValue::kOwn0, StageValue::kOwn4},
    {StageValue::kOwnEach0, StageValue::kOwnEach4},
    {StageValue::kOwnHost0, StageValue::kOwnHost2},
    {StageValue::kOwnAway0, StageValue::kOwnAway2},
};
const HomeRow& RowOf(Home home) { return kHomeRows[static_cast<int>(home)]; }

struct BuiltInValue {
  const char* name;
  Values values;
  bool given, freed;  // rows may give and free it
};
constexpr BuiltInValue kBuiltIn[] = {
    {"saved", kSaved, true, true},       {"stash", kStash, true, true},
    {"output", kMade, false, false},     {"input", kInput, true, false},
    {"out_grad", kOutGrad, true, false}, {"in_grad", kSentBack, false, false},
};

constexpr size_t kLongestName = 24;  // of an action
constexpr absl::string_view kByWords[] = {"", "each", "all"};

std::string PrintValues(const OwnRows& rows, Values values) {
  std::string out;
  const auto append = [&out](absl::string_view name) {
    absl::StrAppend(&out, out.empty() ? "" : ",", name);
  };
  for (const BuiltInValue& value : kBuiltIn) {
    if (values & value.values) append(value.name);
  }
  for (const OwnValue& value : rows.values) {
    if (values & SetOf(value.value)) append(value.name);
  }
  return out;
}

std::optional<Values> ReadValues(const OwnRows& rows, absl::string_view text) {
  Values values = 0;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const Values value = ReadRowValue(rows, name);
    if (value == 0) return std::nullopt;
    values |= value;
  }
  return values;
}

// value host on host | value part on each rank | value lent on ranks 3 2 1 0 | value x
bool ReadValueRow(absl::Span<const Word> words, int64_t ranks, OwnRows* rows) {
  if (words.size() < 2 || !IsValueName(words[1].text) || ReadRowValue(*rows, words[1].text) != 0) {
    return false;
  }
  OwnValue value{.name = std::string(words[1].text), .span = words[1].span};
  Home home = Home::kStage;
  if (words.size() == 4 && words[2].text == "on" && words[3].text == "host") {
    home = Home::kHost;
  } else if (words.size() == 5 && words[2].text == "on" && words[3].text == "each" &&
             words[4].text == "rank") {
    home = Home::kEachRank;
  } else if (words.size() > 4 && words[2].text == "on" && words[3].text == "ranks") {
    home = Home::kOtherRank;
    for (const Word& word : words.subspan(4)) {
      const auto rank = ReadNumber(word.text, ranks - 1);
      if (!rank) return false;
      value.ranks.push_back(static_cast<int32_t>(*rank));
    }
  } else if (words.size() != 2) {
    return false;
  }
  const auto next = NextValue(*rows, home);
  if (!next) return false;
  value.value = *next;
  rows->values.push_back(std::move(value));
  return true;
}

// action S compute by each needs x,y gives part frees y
bool ReadActionRow(absl::Span<const Word> words, OwnRows* rows) {
  if (words.size() < 3 || !IsActionName(words[1].text) || rows->Find(words[1].text) != nullptr)
    return false;
  OwnAction action{.name = std::string(words[1].text), .span = words[1].span};
  const auto lane = ReadRowLane(words[2].text);
  const auto kind = lane ? NextAction(*rows, *lane) : std::nullopt;
  if (!kind || (words.size() - 3) % 2 != 0) return false;
  action.kind = *kind;
  for (size_t i = 3; i < words.size(); i += 2) {
    if (words[i].text == "by") {
      const auto* const by = std::find(kByWords + 1, std::end(kByWords), words[i + 1].text);
      if (by == std::end(kByWords)) return false;
      action.by = static_cast<By>(by - kByWords);
      continue;
    }
    Values* const into = words[i].text == "needs"   ? &action.needs
                         : words[i].text == "gives" ? &action.gives
                         : words[i].text == "frees" ? &action.frees
                                                    : nullptr;
    const auto values = ReadValues(*rows, words[i + 1].text);
    if (into == nullptr || !values || *into != 0) return false;
    *into = *values;
  }
  if ((action.gives & ~kOwnValues & ~MayGive()) || (action.frees & ~kOwnValues & ~MayFree())) {
    return false;
  }
  SetEffects(&action);
  rows->actions.push_back(std::move(action));
  return true;
}

}  // namespace

const char* NameOf(RowLane lane) { return RowOf(lane).name; }

std::optional<RowLane> ReadRowLane(absl::string_view name) {
  for (int lane = 0; lane < kRowLaneCount; ++lane) {
    if (name == kRowLanes[lane].name) return static_cast<RowLane>(lane);
  }
  return std::nullopt;
}

int MostOwnOn(RowLane lane) {
  return static_cast<int>(RowOf(lane).last) - static_cast<int>(RowOf(lane).first) + 1;
}

const OwnAction& OwnRows::of(ActionKind kind) const {
  const auto row = std::find_if(actions.begin(), actions.end(),
                                [kind](const OwnAction& a) { return a.kind == kind; });
  SL_CHECK(row != actions.end()) << PrintedKind(kind) << " has no row";
  return *row;
}

bool OwnRows::HasCopies() const {
  return std::any_of(actions.begin(), actions.end(),
                     [](const OwnAction& action) { return IsCopy(action.kind); });
}

const OwnAction* OwnRows::Find(absl::string_view name) const {
  const auto row = std::find_if(actions.begin(), actions.end(),
                                [name](const OwnAction& a) { return a.name == name; });
  return row == actions.end() ? nullptr : &*row;
}

const OwnValue* OwnRows::FindValue(StageValue value) const {
  const auto row = std::find_if(values.begin(), values.end(),
                                [value](const OwnValue& v) { return v.value == value; });
  return row == values.end() ? nullptr : &*row;
}

Values OwnRows::given() const {
  Values all = 0;
  for (const OwnAction& action : actions) all |= action.gives;
  return all;
}

Home HomeOf(StageValue own) {
  SL_CHECK(own >= StageValue::kOwn0);
  int home = 0;
  while (own > kHomeRows[home].last) ++home;
  return static_cast<Home>(home);
}

int MostOwnAt(Home home) {
  return static_cast<int>(RowOf(home).last) - static_cast<int>(RowOf(home).first) + 1;
}

std::optional<StageValue> NextValue(const OwnRows& rows, Home home) {
  const auto there = std::count_if(rows.values.begin(), rows.values.end(),
                                   [home](const OwnValue& v) { return HomeOf(v.value) == home; });
  if (there >= MostOwnAt(home)) return std::nullopt;
  return static_cast<StageValue>(static_cast<int>(RowOf(home).first) + there);
}

RowLane RowLaneOf(ActionKind own) {
  SL_CHECK(IsOwn(own)) << PrintedKind(own);
  int lane = 0;
  while (!IsBetween(kRowLanes[lane].first, own, kRowLanes[lane].last)) ++lane;
  return static_cast<RowLane>(lane);
}

std::optional<ActionKind> NextAction(const OwnRows& rows, RowLane lane) {
  const auto there =
      std::count_if(rows.actions.begin(), rows.actions.end(),
                    [lane](const OwnAction& a) { return RowLaneOf(a.kind) == lane; });
  if (there >= MostOwnOn(lane)) return std::nullopt;
  return static_cast<ActionKind>(static_cast<int>(RowOf(lane).first) + there);
}

Values ReadRowValue(const OwnRows& rows, absl::string_view name) {
  for (const BuiltInValue& value : kBuiltIn) {
    if (name == value.name) return value.values;
  }
  for (const OwnValue& value : rows.values) {
    if (name == value.name) return SetOf(value.value);
  }
  return 0;
}

std::vector<std::string> NamesOfBuiltIn(Values values) {
  std::vector<std::string> names;
  for (const BuiltInValue& value : kBuiltIn) {
    if (values & value.values) names.emplace_back(value.name);
  }
  return names;
}

Values MayGive() {
  Values all = 0;
  for (const BuiltInValue& value : kBuiltIn) all |= value.given ? value.values : 0;
  return all;
}

Values MayFree() {
  Values all = 0;
  for (const BuiltInValue& value : kBuiltIn) all |= value.freed ? value.values : 0;
  return all;
}

void SetEffects(OwnAction* action) {
  // In a stage with R, what it keeps is what R begins with.
  const auto kept = [](Values values) {
    return (values & kSaved) != 0 ? (values & ~kSaved) | kKept : values;
  };
  const Values needs = action->needs | action->frees;
  action->effects[0] = {needs, action->gives, action->frees};
  action->effects[1] = {kept(needs), kept(action->gives), kept(action->frees)};
  action->effects[2] = {needs & kOfEachRank, action->gives & kOfEachRank,
                        action->frees & kOfEachRank};
}

bool IsValueName(absl::string_view name) {
  const auto fits = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(), fits);
}

bool IsActionName(absl::string_view name) {
  const auto fits = [](char c) { return absl::ascii_isupper(c) || c == '_'; };
  if (name.empty() || name.size() > kLongestName || !absl::ascii_isupper(name[0])) return false;
  if (!std::all_of(name.begin(), name.end(), fits)) return false;
  for (int kind = 0; kind < kActionKinds; ++kind) {
    if (name == PrintedKind(static_cast<ActionKind>(kind))) return false;
  }
  return true;
}

std::string NoActionName(absl::string_view name) {
  return absl::StrCat("'", name, "' is no name for an action: capital letters, at most ",
                      kLongestName, ", and none of the built-in ones");
}

const char* PrintedKind(const OwnRows& rows, ActionKind kind) {
  return IsOwn(kind) ? rows.of(kind).name.c_str() : PrintedKind(kind);
}

std::string NameOf(const OwnRows& rows, StageValue value) {
  const OwnValue* const own = rows.FindValue(value);
  return own != nullptr ? own->name : NameOf(value);
}

const OwnValue* OwnValueOf(const OwnRows& rows, MemoryClass memory_class) {
  const auto own = std::find_if(rows.values.begin(), rows.values.end(), [&](const OwnValue& value) {
    return ClassOf(value.value) == memory_class;
  });
  return own == rows.values.end() ? nullptr : &*own;
}

std::string NameOf(const OwnRows& rows, MemoryClass memory_class) {
  const OwnValue* const own = OwnValueOf(rows, memory_class);
  return own != nullptr ? own->name : NameOf(memory_class);
}

std::string Print(const OwnRows& rows) {
  std::string out;
  for (const OwnValue& value : rows.values) {
    absl::StrAppend(&out, "value ", value.name);
    switch (HomeOf(value.value)) {
      case Home::kStage:
        break;
      case Home::kEachRank:
        absl::StrAppend(&out, " on each rank");
        break;
      case Home::kHost:
        absl::StrAppend(&out, " on host");
        break;
      case Home::kOtherRank:
        absl::StrAppend(&out, " on ranks");
        for (const int32_t rank : value.ranks) absl::StrAppend(&out, " ", rank);
        break;
    }
    absl::StrAppend(&out, "\n");
  }
  for (const OwnAction& action : rows.actions) {
    absl::StrAppend(&out, "action ", action.name, " ", NameOf(RowLaneOf(action.kind)));
    if (action.by != By::kStage) {
      absl::StrAppend(&out, " by ", kByWords[static_cast<int>(action.by)]);
    }
    const std::pair<const char*, Values> lists[] = {
        {" needs ", action.needs}, {" gives ", action.gives}, {" frees ", action.frees}};
    for (const auto& [word, values] : lists) {
      if (values != 0) absl::StrAppend(&out, word, PrintValues(rows, values));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

bool ReadRow(absl::Span<const Word> words, int64_t ranks, OwnRows* rows) {
  return words[0].text == "value" ? ReadValueRow(words, ranks, rows) : ReadActionRow(words, rows);
}

bool BeginsRow(absl::Span<const Word> words) {
  return words[0].text == "value" || words[0].text == "action";
}

}  // namespace stringline
