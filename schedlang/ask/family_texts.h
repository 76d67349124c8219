// Schedules that hold for any P, with parameters of their own whose values a search may choose: the
// library's, a user's, and some made for the purpose (any_size_search.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

// A parameter's value as a function of the ranks: times * P / by + plus, rounded down.
struct ValueOfRanks {
  int64_t times = 0;
  int64_t by = 1;
  int64_t plus = 0;

  int64_t At(int64_t ranks) const { return times * ranks / by + plus; }
  std::string Text() const;  // "3 * P / 4 + 1"
};

// A value for each open parameter; nothing: the default in the text.
using FamilyChoice = std::vector<std::optional<ValueOfRanks>>;

struct FamilyText {
  std::string name;  // of the library's schedule, or of the family
  Source source;
  ast::File file;
  std::vector<size_t> open;  // indices among the parameters of the file's last schedule

  const ast::Schedule& schedule() const { return file.schedules.back(); }
  const std::string& NameOf(size_t i) const { return schedule().parameters[open[i]].name.text; }
};

// The text of a file. Parameters with a default are open, unless they are in `fixed`. Errors:
// findings of the text.
absl::StatusOr<FamilyText> FamilyTextOf(const std::string& name, Source source,
                                        const std::vector<Parameter>& fixed);

// The words of a question that texts repeat.
struct FamilyWish {
  std::string place;  // "line", "v", "loop 2", "wave 4"
  bool whole = true;  // B may be used
  bool split = true;  // I and W may be used
  OrderCosts costs;   // for greedy rules; none where it is empty
};
// The library's schedules, and families of orders on stages that live there.
std::vector<FamilyText> FamilyTextsFor(const FamilyWish& wish);

// The parameters that the text's schedule has, and those of the choice.
std::vector<Parameter> ParametersOf(const FamilyText& text, const FamilyChoice& choice,
                                    const std::vector<Parameter>& parameters);

// The text, laid out, of a schedule `found` whose defaults are those of the choice.
std::string TextWith(const FamilyText& text, const FamilyChoice& choice);

}  // namespace stringline
