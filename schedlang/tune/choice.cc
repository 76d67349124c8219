#include "schedlang/tune/choice.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {
namespace {

struct SizeKey {
  const char* name;
  std::optional<int64_t> Pins::*value;
};
constexpr SizeKey kSizes[] = {{"tp", &Pins::tensor},
                              {"cp", &Pins::context},
                              {"pp", &Pins::pipeline},
                              {"ep", &Pins::expert},
                              {"dp", &Pins::data},
                              {"vp", &Pins::turns},
                              {"microbatch", &Pins::microbatch}};
constexpr const char* kWords[] = {"recompute", "sharding", "schedule", "split"};
constexpr const char* kSplits[] = {"even", "light-ends"};

template <size_t kCount>
absl::StatusOr<int> WordOf(absl::string_view key, absl::string_view word,
                           const char* const (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (word == words[i]) return static_cast<int>(i);
  }
  return FieldError("pin",
                    absl::StrCat(key, " is ", absl::StrJoin(words, " or "), ", not '", word, "'"));
}

absl::StatusOr<int> ScheduleOf(absl::string_view word) {
  const int index = IndexOfSchedule(word);
  if (index < 0) {
    std::vector<std::string> names;
    for (const KnownSchedule& schedule : KnownSchedules()) names.emplace_back(schedule.name);
    const std::string close = ClosestName(word, names);
    return FieldError("pin",
                      absl::StrCat("there is no schedule '", word, "' in the library",
                                   close.empty() ? " (`stringline schedules` lists them)"
                                                 : absl::StrCat("; did you mean '", close, "'?")));
  }
  const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(index)];
  if (*schedule.why_not == '\0') return index;
  return FieldError("pin", absl::StrCat(word, " is not planned with: ", schedule.why_not));
}

absl::Status AddPin(absl::string_view key, absl::string_view value, Pins* pins) {
  for (const SizeKey& size : kSizes) {
    if (key != size.name) continue;
    int64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < 1) {
      return FieldError("pin", absl::StrCat(key, " is a number from 1, not '", value, "'"));
    }
    pins->*size.value = number;
    return absl::OkStatus();
  }
  if (key == "recompute") {
    SL_ASSIGN_OR_RETURN(const int index, WordOf(key, value, kRecomputes));
    pins->recompute = static_cast<Recompute>(index);
  } else if (key == "sharding") {
    SL_ASSIGN_OR_RETURN(const int index, WordOf(key, value, kShardings));
    pins->sharding = static_cast<Sharding>(index);
  } else if (key == "schedule") {
    SL_ASSIGN_OR_RETURN(pins->schedule, ScheduleOf(value));
  } else if (key == "split") {
    SL_ASSIGN_OR_RETURN(const int index, WordOf(key, value, kSplits));
    pins->light_ends = index == 1;
  } else {
    std::vector<std::string> names;
    for (const SizeKey& size : kSizes) names.emplace_back(size.name);
    names.insert(names.end(), std::begin(kWords), std::end(kWords));
    return FieldError("pin", absl::StrCat("there is no '", key, "' to fix; there are ",
                                          absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PrintRecompute(const Choice& choice) {
  const char* const name = NameOf(choice.recompute);
  return choice.quarters < 4 ? absl::StrCat(name, " ", choice.quarters, "/4") : name;
}

int64_t LayersOf(const Choice& choice, int64_t layers) {
  const int64_t stages = choice.pipeline * choice.turns;
  const int64_t of_stage = (layers + stages - 1) / stages;
  // A group leaves its stages open: rounded down, a bound of its times holds for all of them.
  const int64_t up = choice.schedule < 0 ? 0 : 3;
  return (choice.quarters * of_stage + up) / 4;
}

std::string Print(const Choice& choice) {
  std::string text = absl::StrCat("tp=", choice.tensor);
  if (choice.context > 1) absl::StrAppend(&text, " cp=", choice.context);
  absl::StrAppend(&text, " pp=", choice.pipeline);
  if (choice.expert > 1) absl::StrAppend(&text, " ep=", choice.expert);
  absl::StrAppend(&text, " dp=", choice.data, " microbatch=", choice.microbatch);
  if (choice.schedule >= 0) {
    absl::StrAppend(&text, " ", KnownSchedules()[static_cast<size_t>(choice.schedule)].name);
    if (choice.turns > 1) absl::StrAppend(&text, " vp=", choice.turns);
    if (choice.light_ends) absl::StrAppend(&text, " split=light-ends");
  }
  if (choice.sharding != Sharding::kNone) {
    absl::StrAppend(&text, " sharding=", NameOf(choice.sharding));
  }
  if (choice.recompute != Recompute::kNone) {
    absl::StrAppend(&text, " recompute=", NameOf(choice.recompute));
    if (choice.quarters < 4) absl::StrAppend(&text, ":", choice.quarters, "/4");
  }
  return text;
}

absl::Status AddPins(const std::string& text, Pins* pins) {
  for (const absl::string_view pair : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> words = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (words.size() != 2 || words[0].empty() || words[1].empty()) {
      return FieldError("pin", absl::StrCat("'", pair, "' is not like tp=4"));
    }
    SL_RETURN_IF_ERROR(AddPin(words[0], words[1], pins));
  }
  return absl::OkStatus();
}

}  // namespace stringline::tune
